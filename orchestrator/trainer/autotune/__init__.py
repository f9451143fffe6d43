"""Options measured at the start of a run: precision, compression, convolutions, XLA."""

MIN_SPEEDUP = 1.15  # of 16 bits; a smaller one is not worth the rounding
