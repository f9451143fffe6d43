"""Optimizers, learning rates, accumulation of gradients, steps that are skipped."""
