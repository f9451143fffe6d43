"""Start, supervision and end of the processes of a run."""
