"""Measurements of ranks and nodes, and the exporter that serves them to Prometheus."""
