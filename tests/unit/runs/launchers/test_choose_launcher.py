"""The launcher of a script, by its imports and by options."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.config import Config, Launch
from orchestrator.errors import ConfigError
from orchestrator.runs import script
from orchestrator.runs.launchers import choose_launcher

SERVERS = "import tensorflow as tf\ntf.distribute.ParameterServerStrategy(None)"


def launcher_of(directory: Path, text: str, **options: Any) -> str:
    (directory / "train.py").write_text(text)
    source = script.gather(["python", str(directory / "train.py")])
    return choose_launcher.choose(Launch(**options), source).launcher


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
def test_launcher_is_the_requested_or_the_one_of_the_imports(
    tmp_path: Path, text: str, options: dict[str, Any], launcher: str
) -> None:
    assert launcher_of(tmp_path, text, **options) == launcher


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (SERVERS, {}, "launch.parameter_servers: missing"),
        ("print()", {"launcher": "ray", "parameter_servers": 2}, "launch.parameter_servers: 2: ray has none"),
    ],
)
def test_impossible_parameter_servers_are_refused(
    tmp_path: Path, text: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        launcher_of(tmp_path, text, **options)


def test_module_that_is_not_sent_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").touch()
    (tmp_path / "scripts").mkdir()
    launcher_of(tmp_path / "scripts", "import mine")
    assert "`orchestrator run -- python -m scripts.train`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("launcher", "nodes", "words"),
    [
        ("torchrun", {}, "torchrun: nodes of cluster 'default' have tensorflow, not torch"),
        ("ray", {"framework": "pytorch"}, "ray: nodes of cluster 'default' have pytorch, not ray"),
    ],
)
def test_launchers_that_the_image_lacks_are_refused(launcher: str, nodes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        choose_launcher.require_package(launcher, Config(**nodes))


@pytest.mark.parametrize(
    ("launcher", "nodes"),
    [
        ("torchrun", {"framework": "pytorch"}),
        ("ray", {"framework": "both"}),
        ("ray", {"image": "my/trainer:1"}),
        ("torchrun", {"hosts": {"trainer": "installed"}}),
        ("horovod", {}),
    ],
)
def test_launchers_that_the_image_may_have_are_accepted(launcher: str, nodes: dict[str, Any]) -> None:
    choose_launcher.require_package(launcher, Config(**nodes))
