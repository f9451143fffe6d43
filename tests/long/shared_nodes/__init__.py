"""Tests that share one cluster of two local nodes, since a deploy takes longer than most of them."""

CLUSTER = "e2e-shared"
HEAD, WORKER = f"{CLUSTER}-head", f"{CLUSTER}-worker-0"
