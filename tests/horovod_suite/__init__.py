"""Horovod's own tests, of the release that the images build, run inside the image: ``make horovod-suite``.

Horovod's sources are not part of this project: ``HOROVOD_SOURCE`` names a directory that holds them.
"""
