"""A cluster is not made smaller under a run."""

from pathlib import Path

from tests.e2e import command
from tests.e2e.command import Cli, left_on_engine

WAITS = str(Path(command.__file__).parent / "scripts" / "waits.py")


def test_a_cluster_in_use_is_not_made_smaller(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "state")
    cli("deploy", "--nodes", "2")
    try:
        run = cli("run", "--detach", "--", "python", WAITS).stdout.strip()
        said = cli("deploy", "--nodes", "1", code=1).stderr
        assert f"run {run} is using the cluster" in said
        assert f"`orchestrator stop {run} --cluster e2e`" in said
        assert len(cli.json("deploy")["cluster"]["nodes"]) == 2
        cli("stop", run)
        assert len(cli.json("deploy", "--nodes", "1")["cluster"]["nodes"]) == 1
    finally:
        cli("teardown")
    assert left_on_engine() == []
