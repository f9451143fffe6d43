"""The launcher of a script, by its imports and by what is asked for."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.config import Launch
from orchestrator.errors import ConfigError
from orchestrator.runs import script
from orchestrator.runs.launchers import choice

SERVERS = "import tensorflow as tf\ntf.distribute.ParameterServerStrategy(None)"


def chosen(directory: Path, text: str, **options: Any) -> str:
    (directory / "train.py").write_text(text)
    source = script.gather(["python", str(directory / "train.py")])
    return choice.choose(Launch(**options), source).launcher


@pytest.mark.parametrize(
    ("text", "options", "launcher"),
    [
        ("import torch.distributed", {}, "torchrun"),
        ("import torch.distributed", {"launcher": "plain"}, "plain"),
        ("import torch.distributed", {"controller": "mpi"}, "torchrun"),
        ("print()", {}, "plain"),
        ("print()", {"controller": "mpi"}, "horovod"),
        ("print()", {"parameter_servers": 2}, "tensorflow"),
        (SERVERS, {"parameter_servers": 1}, "tensorflow"),
        (SERVERS, {"launcher": "plain"}, "plain"),
    ],
)
def test_launcher_is_what_is_asked_for_else_what_the_script_needs(
    tmp_path: Path, text: str, options: dict[str, Any], launcher: str
) -> None:
    assert chosen(tmp_path, text, **options) == launcher


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (SERVERS, {}, "launch.parameter_servers: missing"),
        ("print()", {"launcher": "ray", "parameter_servers": 2}, "launch.parameter_servers: 2: ray has none"),
    ],
)
def test_parameter_servers_that_do_not_fit_are_refused(
    tmp_path: Path, text: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        chosen(tmp_path, text, **options)
