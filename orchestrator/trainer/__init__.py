"""The worker side: what runs on every node. It imports nothing of the control side but `orchestrator.schema`."""
