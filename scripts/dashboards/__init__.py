"""Grafana's dashboards, written in Python and committed as JSON in ``infra/grafana/dashboards``.

``python -m scripts.dashboards`` writes the JSON anew; ``tests/unit/test_dashboards.py`` keeps both equal.
``queries`` reads the JSON alone and needs no SDK.
"""
