"""Programs for two ranks, started by tests: they print a line for each check."""

import json
import os
import traceback
from collections.abc import Callable
from importlib import import_module, util

hvd = import_module("horovod.tensorflow" if util.find_spec("tensorflow") else "horovod.torch")
PREFIX = "CHECK "


def execute(checks: dict[str, Callable[[], None]]) -> None:
    """Execute checks in turn; each line has the check, the rank, and the failure ("" for none)."""
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"  # some checks add sets
    hvd.init()
    for name, check in checks.items():
        try:
            check()
            failure = ""
        except BaseException:  # reported by the test of this check
            failure = traceback.format_exc()
        line = PREFIX + json.dumps({"check": name, "rank": hvd.rank(), "failure": failure}) + "\n"
        os.write(1, line.encode())  # a single write is not mixed with other ranks' lines


def named(scope: dict[str, object]) -> dict[str, Callable[[], None]]:
    """Return the functions check_NAME of a module by NAME."""
    checks = {name.removeprefix("check_"): value for name, value in scope.items() if name.startswith("check_")}
    return {name: value for name, value in checks.items() if callable(value)}
