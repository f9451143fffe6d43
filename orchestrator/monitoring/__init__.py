"""Monitoring seen from the control side: Grafana's password, Alertmanager's configuration, Prometheus' data.

grafana_password   generated, readable by the user alone
alertmanager       configuration of receivers
connection         the tunnel to the head, and the services behind it
prometheus         client of its HTTP API
summary            summary of a run's series
top                current state of nodes and runs
series             all series of one run, as CSV files
"""
