"""Copies of files by hard links, on file systems that have them."""

import os
import shutil


def link_or_copy(source: str, target: str) -> None:
    """Make ``target`` a hard link to ``source``, or a copy on a file system without hard links (SMB, BeeGFS)."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
