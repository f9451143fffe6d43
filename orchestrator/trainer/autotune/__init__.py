"""Options measured at the start of a run: precision, compression, Horovod's cycle time."""
