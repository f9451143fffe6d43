"""Runs that can be cited: exported to an archive, repeated from it on another cluster, and compared."""
