"""A machine of Debian 12 on which a deploy installs everything, as on the servers of a cloud.

``make e2e-distributions`` deploys one of every distribution.
"""

import shutil
from collections.abc import Iterator

import pytest

from tests.conftest import Missing
from tests.distributions.machines import RELEASES, machine_name, user_of_machines
from tests.e2e.command import Cli, docker

OWNER, CLUSTER = "machine", "e2e-machine"
BOOKWORM = next(release for release in RELEASES if release.suite == "bookworm")
UNITS = ("docker", "trainer", "trainer-exporter", "prometheus-node-exporter", "prometheus", "notebook")


@pytest.fixture(scope="module")
def user(missing: Missing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    if not shutil.which("mmdebstrap"):
        missing("mmdebstrap, which makes the machine, is not installed: `sudo apt-get install mmdebstrap`")
    with user_of_machines(OWNER, [BOOKWORM], tmp_path_factory.mktemp("machine")) as cli:
        yield cli


def test_machine_is_configured_checked_and_restored(user: Cli) -> None:
    assert user.json("deploy", cluster=CLUSTER)["cluster"]["trainer"] == "container"
    inside = ("exec", machine_name(OWNER, BOOKWORM))
    assert docker(*inside, "systemctl", "is-active", *UNITS) == ["active"] * len(UNITS)
    assert user.json("deploy", cluster=CLUSTER)["changed"] == {f"{CLUSTER}-head": 0}
    assert [rank["allreduce_sum"] for rank in user.json("check", cluster=CLUSTER)["ranks"]] == [1.0]
    assert [node["up"] for node in user.json("top", "--once", cluster=CLUSTER)["nodes"]] == [True]
    unpacked = docker(*inside, "docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "orchestrator-unpacked")
    # Stands for the image that a machine builds if `orchestrator` runs on it.
    docker(*inside, "docker", "tag", *unpacked, "orchestrator-trainer:built")
    assert user.json("teardown", cluster=CLUSTER)["left"] == []
    left = docker(*inside, "docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "orchestrator-*")
    assert left == ["orchestrator-trainer:built"]
    listing = "ls -d /opt/orchestrator /etc/orchestrator /etc/systemd/system/trainer.service; id orchestrator; true"
    assert docker(*inside, "sh", "-c", f"({listing}) 2> /dev/null") == []
