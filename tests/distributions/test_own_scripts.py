"""A PyTorch script of a user on two fresh machines of other distributions, with data and packages of the user."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributions.machines import RELEASES, machine_name, user_of_machines
from tests.e2e.command import Cli

OWNER = "e2e-lab"
CLUSTER = "e2e-lab"
MACHINES = [release for release in RELEASES if release.suite in ("jammy", "bookworm")]
NAMES = [machine_name(OWNER, release) for release in MACHINES]
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "distribute" / "pytorch_ddp.py"
SCRIPT = """
import os, socket
from pathlib import Path
import emoji
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
numbers = torch.tensor([float(word) for word in Path("/shared/data/numbers.txt").read_text().split()])
own = numbers[dist.get_rank()::dist.get_world_size()].sum()
launcher = "torchrun" if "TORCHELASTIC_RUN_ID" in os.environ else "another launcher"
print(f"{socket.gethostname()} has {own.item():g}, with {emoji.__name__} under {launcher}")
dist.all_reduce(own)
compiled = torch.compile(lambda x: (x * x).sum())(torch.ones(4))
if dist.get_rank() == 0:
    Path(os.environ["ORCHESTRATOR_OUTPUT"], "sum.txt").write_text(f"{own.item():g} {compiled.item():g}")
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """Return the command of a user with two fresh machines."""
    with user_of_machines(OWNER, MACHINES, tmp_path_factory.mktemp("lab")) as cli:
        yield cli


def test_deploy_gives_both_machines_pytorch(user: Cli) -> None:
    user("deploy", "--framework", "pytorch", "--no-monitoring", cluster=CLUSTER)
    assert user.json("check", cluster=CLUSTER)["expected_sum"] == 3.0


def test_script_reads_copied_data_and_uses_its_packages(user: Cli) -> None:
    data, project = user.state / "data", user.state / "project"
    data.mkdir()
    project.mkdir()
    (data / "numbers.txt").write_text("1 2 3 4")
    (project / "sum.py").write_text(SCRIPT)
    (project / "requirements.txt").write_text("emoji\n")
    user("cp", "data", "head:/shared/", cluster=CLUSTER)
    shown = user("run", "--", "python", "project/sum.py", cluster=CLUSTER).stdout
    for name, own in zip(NAMES, ("4", "6"), strict=True):
        assert f"{name} has {own}, with emoji under torchrun" in shown
    user("results", cluster=CLUSTER)
    [saved] = (user.state / "orchestrator" / CLUSTER).rglob("output/sum.txt")
    assert saved.read_text() == "10 4"


def test_example_of_a_distributed_script_trains(user: Cli) -> None:
    """The example is on the page docs/guide/distribute-a-script.md."""
    shown = user("run", str(EXAMPLE), cluster=CLUSTER).stdout
    losses = [float(loss) for loss in re.findall(r"epoch \d: loss ([\d.]+)", shown)]
    assert len(losses) == 3
    assert losses[-1] < 0.3


def test_teardown_leaves_the_copied_data(user: Cli) -> None:
    assert user.json("teardown", cluster=CLUSTER)["left"] == []
