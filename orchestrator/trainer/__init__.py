"""Program of the nodes. It imports nothing of the control side but `orchestrator.schema`."""
