"""Horovod's launcher with helper processes that start six times as fast.

For each host and phase Horovod starts an interpreter by multiprocessing's method "spawn", which imports the main module
again. If that is the script ``horovodrun``, all of Horovod's launcher is imported: 0.3 s of the head's CPU per host,
twice. Here the main module is this one, which imports Horovod only when it is the launcher itself.
"""

import sys


def main() -> None:
    """Run ``horovodrun`` with this program's arguments."""
    from horovod.runner.launch import run_commandline  # noqa: PLC0415  see above

    sys.argv[0] = "horovodrun"
    run_commandline()


if __name__ == "__main__":
    main()
