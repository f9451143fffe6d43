"""What ranks and nodes measure, and the exporter that shows it to Prometheus."""
