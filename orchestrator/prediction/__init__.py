"""Prediction of a training step on more nodes, from one node and the link between them. Pure.

``docs/guide/prediction.md`` has the formulas, their sources, and how far they were right.
"""
