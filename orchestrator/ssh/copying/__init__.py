"""Copies of files between this machine and a node: verified, resumed where they stopped, put in place whole.

Each file is written next to its target as ``.NAME.IDENTITY.part``, where IDENTITY changes with size and time of the
source. An existing part is compared by SHA-256 and continued; the complete file is compared on both sides, and renamed.
A directory with a new name is written in the same way, where IDENTITY changes with the path of the source: otherwise a
second command would find the target as a directory, and copy into it.
"""
