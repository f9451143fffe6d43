"""Copies of files between this machine and a node: verified, resumed where they stopped, put in place whole.

Each file grows beside its target as ``.NAME.IDENTITY.part``, where IDENTITY changes with size and time of the source.
What is there of it is compared by SHA-256 and continued; the whole is compared on both sides, and then renamed.
"""
