"""Cluster of a command: which is chosen, and which settings it gets."""

from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.cli import chosen_cluster, clusters
from tests import builders
from tests.unit.conftest import Cli


@pytest.mark.parametrize("argv", [["--cluster", "other", "remove"], ["remove", "--cluster", "other"]])
def test_packages_are_removed_from_the_cluster_that_is_named(cli: Cli, argv: list[str]) -> None:
    result = cli("packages", *argv, "--all")
    assert result.returncode == 1
    assert "cluster 'other' is not deployed" in result.stderr


def test_deploy_names_settings_that_return_to_their_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    state_dir = builders.deployed("demo")
    record = state.read(state_dir)
    assert record
    changed = {**record.config, "framework": "pytorch", "nodes": 2}
    state.write(state_dir, record.model_copy(update={"config": changed}))
    file = tmp_path / "cluster.yaml"
    file.write_text("name: demo\nnodes: 3\n")

    def note(flags: dict[str, object]) -> str:
        loaded = chosen_cluster.load_config(None, None, flags)
        chosen_cluster.note_defaults(loaded, None, clusters.LASTING)
        return capsys.readouterr().err

    assert note({}).splitlines() == [
        'framework: "pytorch" becomes "tensorflow", the default: set framework in cluster.yaml to keep "pytorch"'
    ]
    assert note({"framework": "tensorflow"}) == ""
    file.unlink()
    assert note({"name": "demo"}) == ""
