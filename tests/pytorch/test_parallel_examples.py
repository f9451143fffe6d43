"""The programs of docs/examples/parallel, run by the commands in docs/concepts/parallel-training.md."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command import Cli
from tests.pytorch.conftest import CLUSTER

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "concepts" / "parallel-training.md").read_text()
EXAMPLES = DOCS / "examples" / "parallel"
COMMANDS = re.findall(r"^    orchestrator run (?:(.*) )?-- python docs/examples/parallel/(.*)$", PAGE, re.MULTILINE)
MNIST = Path(__file__).parent.parent / "data" / "mnist"
GRADIENTS = 1_195_018 * 4 / 1e6  # MB
ACTIVATIONS = 1024 * 512 * 4 / 1e6  # MB at the cut in the middle: 512 values of each image, forward and backward
EACH_SENDS = {"data_parallel.py": GRADIENTS, "ring.py": GRADIENTS, "parameter_server.py": GRADIENTS,
              "pipeline.py": ACTIVATIONS}  # fmt: skip
RANK = re.compile(r"rank (\d+): \d+ images/s, ([\d.]+) MB sent per step, idle \d+%")
TEST = re.compile(r"(\S+): test loss ([\d.]+), accuracy ([\d.]+)%")


@pytest.fixture(scope="module", autouse=True)
def deployed(cli: Cli) -> Iterator[None]:
    cli("deploy", "--framework", "pytorch", "--nodes", "2", "--no-monitoring", cluster=CLUSTER)
    yield
    cli("teardown", "--discard-runs", cluster=CLUSTER)


@pytest.fixture(scope="module")
def mnist(cli: Cli) -> None:
    cli("cp", str(MNIST), "head:/shared/data/", cluster=CLUSTER)


def run(cli: Cli, options: str, program: str) -> str:
    script, *arguments = program.split()
    words = ("run", *options.split(), "--", "python", str(EXAMPLES / script), *arguments)
    output: str = cli(*words, cluster=CLUSTER).stdout
    return output


def test_every_program_is_on_the_page() -> None:
    assert {program.split()[0] for _, program in COMMANDS} == set(EACH_SENDS)


def test_missing_dataset_is_replaced_by_drawn_digits(cli: Cli) -> None:
    """Runs first: the other tests upload the data set."""
    output = run(cli, "", "data_parallel.py")
    assert "digits drawn here: test loss" in output
    assert float(TEST.findall(output)[0][2]) > 95.0


@pytest.mark.usefixtures("mnist")
@pytest.mark.parametrize(("options", "program"), COMMANDS)
def test_program_trains_and_checks_itself(cli: Cli, options: str, program: str) -> None:
    output = run(cli, options, program)
    [(name, loss, accuracy)] = TEST.findall(output)
    assert name == "/shared/data/mnist/t10k-images-idx3-ubyte.gz"
    assert float(accuracy) > 90.0
    assert float(loss) < 0.4
    assert "check: " in output
    ranks = dict(RANK.findall(output))
    assert ranks.keys() == {"0", "1"}
    if "asynchronous" not in program:  # one rank may end long before the other
        assert [float(sent) for sent in ranks.values()] == pytest.approx(
            [EACH_SENDS[program.split(maxsplit=1)[0]]] * 2, rel=0.1
        )


@pytest.mark.usefixtures("mnist")
def test_synchronous_programs_end_with_the_same_loss(cli: Cli) -> None:
    """They add the same numbers in different order."""
    programs = ("data_parallel.py", "ring.py", "parameter_server.py")
    losses = [float(TEST.findall(run(cli, "", program))[0][1]) for program in programs]
    assert losses == pytest.approx([losses[0]] * 3, rel=0.01)


@pytest.mark.usefixtures("mnist")
@pytest.mark.parametrize("program", ["ring.py", "pipeline.py"])
def test_program_trains_on_four_ranks_of_two_nodes(cli: Cli, program: str) -> None:
    cli("deploy", "--framework", "pytorch", "--nodes", "2", "--slots", "2", "--no-monitoring", cluster=CLUSTER)
    output = run(cli, "", program)
    assert {rank for rank, _ in RANK.findall(output)} == {"0", "1", "2", "3"}
    assert float(TEST.findall(output)[0][2]) > 90.0
