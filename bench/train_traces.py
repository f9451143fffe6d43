"""Count how often TensorFlow traces Python during a run: ``python -m bench.train_traces RUN_DIRECTORY``.

Run by ``bench.train`` in a container, as the trainer is. Prints as JSON how often each function was traced: those that
are compiled, and those that tf.data maps over samples.
"""

import collections
import json
import sys
from pathlib import Path
from typing import Any

from tensorflow.python.framework import func_graph

from orchestrator.trainer import train


def main(directory: Path) -> None:
    traced = collections.Counter[str]()
    original = func_graph.func_graph_from_py_func

    def counting(name: str, *args: Any, **options: Any) -> Any:
        traced[name] += 1
        return original(name, *args, **options)

    func_graph.func_graph_from_py_func = counting
    train.main(directory)
    print("\n" + json.dumps(traced))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
