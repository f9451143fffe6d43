"""Deploy a Horovod cluster, train on it, tear it down."""

__version__ = "0.1.0"
