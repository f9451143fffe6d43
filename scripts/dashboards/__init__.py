"""Grafana's dashboards, written in Python and committed as JSON in ``infra/grafana/dashboards``.

``python -m scripts.dashboards`` writes the JSON again; ``tests/unit/scripts/test_dashboards.py`` checks that both are
equal. ``queries`` reads only the JSON and needs no SDK.
"""
