"""Which driver, CUDA and image go with which GPU: the table drivers_to_install.yaml, and the choice from it."""

from orchestrator.gpu_compatibility.choose_driver import Pairing, distribution, oldest, resolve

__all__ = ["Pairing", "distribution", "oldest", "resolve"]
