"""Copies of files between this machine and a node: verified, resumed where they stopped, put in place whole.

Each file is written next to its target as ``.NAME.IDENTITY.part``, where IDENTITY changes with size and time of the
source. An existing part is compared by SHA-256 and continued; the complete file is compared on both sides, and renamed.
"""
