"""Deploy a cluster, plan it, tear it down."""
