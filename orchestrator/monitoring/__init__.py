"""Looking into a cluster from this side: the password of Grafana, and what Prometheus on the head has seen.

password     made up, kept for its owner alone
access       the tunnel to the head, and what listens there
prometheus   its HTTP API
summary      what the series of a run say in short
top          nodes and runs as they are now
series       all series of one run, as CSV files
"""
