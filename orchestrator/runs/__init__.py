"""Runs: what they execute, and how they are launched, recorded, resumed and fetched."""
