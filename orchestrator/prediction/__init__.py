"""Prediction of a training step on more nodes, from one node and the link between them. Pure.

``docs/guide/prediction.md`` has the formulas, their sources, and how far they were right.

===================  ===========================================================================
``ready_gradients``  gradients in the order in which they are ready, from the network's layers
``single_rank``      one rank without communication: measured, or a step's time and an estimate
``link``             seconds and load of an allreduce over a link
``link_kinds``       links by name: their constants, with reasons
``fit``              a link from what ``orchestrator check`` measured
``gradient_groups``  which gradients travel together, by engine
``step``             the timeline of a step: computing, communication, and what is exposed of it
``forecast``         steps on several numbers of nodes, with bands, time and price
``backtest``         published measurements compared with predictions
``review``           earlier predictions compared with measurements of their runs
===================  ===========================================================================
"""
