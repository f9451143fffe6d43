"""Root in a local node cannot escape to the machine with cgroup version 2, shown on a private engine."""

from collections.abc import Callable
from pathlib import Path

from orchestrator.config import Local
from orchestrator.docker import context
from orchestrator.docker.context import Variant
from orchestrator.docker.engine import Engine
from tests.contract.conftest import Root, root
from tests.contract.local_node import CLUSTER, running_node
from tests.contract.test_confinement import try_from_shell_and_unit
from tests.failures.engine import isolated_engine, short_directory
from tests.failures.test_engine import root_and_image

__all__ = ["root", "root_and_image"]

# On a machine with version 1, this hierarchy has few controllers; a node needs none.
UNIFIED = ("unshare", "--mount", "sh", "-c", 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"', "sh")


def test_no_escape_works_with_cgroup_version_2(root: Callable[[str], Root], tmp_path: Path) -> None:
    with short_directory() as directory, isolated_engine(directory, UNIFIED) as engine:
        engine.take_image(context.tag("node", Variant(Local().base_image)))
        assert Engine().cgroup_version == 2
        # Docker refuses limits without controllers: create the node only.
        with running_node(root("local"), tmp_path / "key", engine.inside, ["terraform_data.node"]) as shell:
            assert f"0::/orchestrator/{CLUSTER}/" in shell("cat", "/proc/1/cgroup").text
            try_from_shell_and_unit(shell)
