"""Program that proves a cluster, ``python -m orchestrator.trainer.check``, and how it measures with each framework."""
