"""Prediction of a training step on more nodes, from one node and the link between them. Pure.

``docs/prediction-model.md`` has the formulas, their sources, and how far they were right.
"""
