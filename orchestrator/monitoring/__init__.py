"""Monitoring seen from the control side: Grafana's password, Alertmanager's configuration, Prometheus' data.

grafana_password   generated, readable by the user alone
alert_receivers    configuration of Alertmanager
connection         the tunnel to the head, and the services behind it
prometheus         client of its HTTP API
series_summary     summary of a run's series
current_state      current state of nodes and runs
run_series         all series of one run, as CSV files
"""
