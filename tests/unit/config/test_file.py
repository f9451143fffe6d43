"""The file cluster.yaml: read, refused, and written by `init`."""

from pathlib import Path

import pytest
import yaml

from orchestrator import config, state
from orchestrator.config import Config
from orchestrator.errors import ConfigError
from tests import builders
from tests.unit.conftest import Cli


def test_missing_file_is_named_with_the_command_that_writes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file") as caught:
        config.load(tmp_path / "cluster.yaml", {})
    assert "orchestrator init" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"nodes: [1", "not YAML"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (b"- nodes", "expected keys and values, found list"),
        (b"just words", "expected keys and values, found str"),
    ],
)
def test_file_without_keys_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=problem):
        config.load(path, {})


def test_empty_file_means_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.touch()
    assert config.load(path, {}) == Config()


def test_name_is_read_from_an_otherwise_invalid_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("name: demo\nnodes: none at all\n")
    assert config.name_in(path) == "demo"


def test_file_without_a_name_names_no_cluster(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("nodes: 2\n")
    assert config.name_in(path) is None


@pytest.mark.parametrize("name", ['""', "", "~", "null"])
def test_empty_name_is_refused_by_every_reader(tmp_path: Path, name: str, cli: Cli) -> None:
    builders.deployed("default")
    (tmp_path / "cluster.yaml").write_text(f"name: {name}\nnodes: 2\n")
    for command in ("deploy", "status", "teardown", "runs"):
        finished = cli(command)
        assert finished.returncode == 2, finished.stderr
        assert "name:" in finished.stderr
    assert state.cluster_names() == ["default"]


def test_image_below_an_unknown_home_is_refused(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "cluster.yaml").write_text("image: ~0\n")
    finished = cli("plan")
    assert finished.returncode == 2, finished.stderr
    assert "image: '~0': no such user: write the whole path" in finished.stderr


def test_name_of_an_image_may_be_too_long_for_a_path(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(f"image: {'x' * 300}\n")
    assert config.load(tmp_path / "cluster.yaml", {}).image == "x" * 300


@pytest.mark.parametrize("command", ["plan", "deploy", "status", "teardown", "runs", "logs", "stop", "check", "ssh"])
def test_empty_cluster_option_is_not_the_default_cluster(command: str, cli: Cli) -> None:
    builders.deployed("default")
    finished = cli(command, "--cluster", "")
    assert finished.returncode == 2, finished.stderr
    assert "name: '' is not usable" in finished.stderr
    assert state.cluster_names() == ["default"]


def test_empty_node_argument_is_not_the_head(cli: Cli) -> None:
    builders.deployed("default")
    finished = cli("ssh", "", "--", "true")
    assert finished.returncode == 2
    assert "no node ''" in finished.stderr


def test_template_loads_to_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(config.template())
    assert config.load(path, {}) == Config()


def test_template_for_hosts_uses_all_listed_hosts(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    values = yaml.safe_load(config.template())
    path.write_text(yaml.safe_dump({**values, "provider": "hosts", "hosts": {"addresses": ["a", "b", "c", "d"]}}))
    assert config.load(path, {}).nodes == 4


def test_template_has_every_key_with_its_meaning() -> None:
    lines = config.template().splitlines()
    for path, meaning, _ in config.every_key():
        name, indent = path.rpartition(".")[2], "  " * path.count(".")
        starts = (f"{indent}{name}:", f"{indent}# {name}:")
        numbers = [number for number, line in enumerate(lines) if line.startswith(starts)]
        assert any(meaning in lines[number] or meaning in lines[number - 1] for number in numbers), path


def test_every_commented_line_of_the_template_is_a_valid_key() -> None:
    uncommented = [line.replace("# ", "", 1) if line.lstrip().startswith("# ") else line for line in _keys()]
    values = yaml.safe_load("\n".join(uncommented))
    paths = {f"{key}.{inner}" for key, value in values.items() if isinstance(value, dict) for inner in value}
    assert paths | set(values) == {path for path, _, _ in config.every_key()}


def _keys() -> list[str]:
    keys = {path.rpartition(".")[2] for path, _, _ in config.every_key()}
    words = [(line, line.lstrip().removeprefix("# ").partition(":")[0]) for line in config.template().splitlines()]
    return [line for line, word in words if word in keys]


@pytest.mark.parametrize("path", [path for path, _, _ in config.every_key()])
def test_every_key_has_a_description(path: str) -> None:
    meanings = {key: meaning for key, meaning, _ in config.every_key()}
    assert len(meanings[path].split()) >= 3
