"""Options measured at the start of a run: precision, compression, convolutions, XLA."""
