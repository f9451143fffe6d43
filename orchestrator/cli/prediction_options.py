"""Options of `predict`, and how the text of some is read."""

from collections.abc import Sequence
from typing import Annotated

import typer

from orchestrator.cli import options, shell_completion
from orchestrator.cli.prediction_sources import PROFILE_STEPS
from orchestrator.config.section import MAX_SLOTS, seconds
from orchestrator.errors import ConfigError
from orchestrator.prediction import machine_types
from orchestrator.prediction.gradient_groups import Engine
from orchestrator.schema.bounded_files import shown

NODES, MOST_NODES = "1,2,4,8,16", 100_000
HEAD_WITHOUT_RANKS = "the head has no GPU and runs no rank"
ENGINES: dict[str, Engine] = {  # as in `train --engine`, and the short names; the other engines have no model
    "ours": "ours",
    "horovod-tensorflow": "horovod",
    "horovod-torch": "horovod",
    "torch-ddp": "torch-ddp",
    "ray-torch": "torch-ddp",  # it wraps the network in DistributedDataParallel
    "tensorflow-parameter-server": "parameter-server",
    "horovod": "horovod",
    "parameter-server": "parameter-server",
}
A_SPEED, A_PRICE = options.between(1e-6, 1e9), options.between(0, 1e9)

Nodes = Annotated[str, typer.Option("--nodes", metavar="N,N,…", help="Numbers of nodes to predict, as in 2,4,8.")]
StepSeconds = Annotated[
    float | None,
    typer.Option("--step-seconds", callback=A_SPEED, help="Seconds of a step of one rank, instead of a profile."),
]
Rate = Annotated[
    float | None,
    typer.Option("--images-per-second", callback=A_SPEED, help="Images/s of one rank, instead of a profile."),
]
Cores = Annotated[
    int | None,
    typer.Option(
        "--cores",
        callback=options.between(1, 10_000),
        help="Cores of a rank without a GPU; default: of the profile or the machine type, else the rank has a GPU.",
    ),
]
LinkRate = Annotated[
    str | None,
    typer.Option(
        "--link", metavar="RATE", help="Link between nodes (10gbit, 25gbit-roce, 100gbit-ib, 25gbit-cloud); default: as"
        " `orchestrator check` measured it, else the cloud's limit for the machine type or flavor.",
    ),
]  # fmt: skip
Latency = Annotated[str | None, typer.Option("--latency", metavar="TIME", help="Latency of that link: 50us, 2ms.")]
MachineTypeName = Annotated[
    str | None,
    typer.Option(
        "--machine-type", metavar="NAME", autocompletion=shell_completion.among(lambda: list(machine_types.by_name())),
        help="Google's machine type of all nodes, for link and price; default: that of cluster.yaml.",
    ),
]  # fmt: skip
Within = Annotated[
    str, typer.Option("--within", metavar="KIND", help="Link between the GPUs of a node: pcie, nvlink or nvswitch.")
]
Slots = Annotated[
    int | None,
    typer.Option(
        "--slots",
        callback=options.between(1, MAX_SLOTS),
        help="Ranks per node; default: those of cluster.yaml, else as deployed, else one per GPU of a machine type, or"
        " one.",
    ),
]
EngineName = Annotated[
    str,
    typer.Option("--engine", metavar="NAME", help=f"Program that exchanges gradients: {', '.join(ENGINES)}."),
]
Deadline = Annotated[
    str | None,
    typer.Option("--deadline", metavar="TIME", help="Find the number of nodes that ends within this time (2h)."),
]
Budget = Annotated[
    float | None,
    typer.Option("--budget", callback=A_PRICE, help="Find the number of nodes that costs at most this."),
]
NodePrice = Annotated[
    float | None,
    typer.Option(
        "--node-price", callback=A_PRICE, help="Price of a node per hour; default: from `prices` in cluster.yaml."
    ),
]
MakeProfile = Annotated[
    bool, typer.Option("--profile", help=f"First train {PROFILE_STEPS} steps on one rank of the cluster.")
]
Backtest = Annotated[bool, typer.Option("--backtest", help="Compare predictions with what others published.")]
Review = Annotated[bool, typer.Option("--review", help="Compare earlier predictions with what the runs measured.")]


def require_alone(context: typer.Context) -> None:
    """Check that `--backtest` or `--review` has no options that it would ignore. Raises ConfigError."""
    sources = ((each.opts[0], context.get_parameter_source(str(each.name))) for each in context.command.params)
    given = [word for word, source in sources if source and source.name == "COMMANDLINE" and word != "--json"]
    if len(given) > 1:
        words = " ".join(word if word.startswith("-") else word.upper() for word in given)
        problem = f"{words}: cannot be combined: --backtest and --review take no option but --json"
        raise ConfigError([problem], "leave the others out")


def node_counts(nodes: str) -> list[int]:
    """Read `--nodes`. Raises ConfigError."""
    words = [word.strip() for word in nodes.split(",") if word.strip()]
    wrong = [word for word in words if not word.isdecimal() or not 0 < float(word) <= MOST_NODES]
    if wrong or not words:
        problem = f"--nodes: {shown(', '.join(wrong)) if wrong else 'empty'}: expected numbers from 1 to {MOST_NODES:,}"
        raise ConfigError([problem], "write them as 2,4,8,16")
    return sorted({int(word) for word in words})


def nodes_with_ranks(counts: Sequence[int], without: int) -> list[int]:
    """Return each number of nodes less those ``without`` ranks. Raises ConfigError if none has a node with ranks."""
    if counts[-1] <= without:
        problem = f"--nodes: {counts[-1]}: {HEAD_WITHOUT_RANKS}: expected {without + 1} or more"
        raise ConfigError([problem], "name more nodes, or leave out --nodes")
    return [count - without for count in counts if count > without]


def hours(deadline: str | None) -> float | None:
    """Read `--deadline` in hours. Raises ConfigError."""
    if deadline is None:
        return None
    read = seconds(deadline)
    if not isinstance(read, float) or not 0 < read < float("inf"):
        raise ConfigError([f"--deadline: {shown(deadline)} is no duration"], "write it as 90m or 2h")
    return read / 3600


def limits(deadline: float | None, budget: float | None, currency: str) -> str:
    """Return what `--deadline` (in hours) and `--budget` demand of a number of nodes, "" if neither is given."""
    demands = []
    if deadline is not None:
        time = f"{deadline:g} h" if deadline >= 1 else f"{deadline * 60:.3g} min"
        demands.append(f"ends within {time}")
    if budget is not None:
        demands.append(f"costs at most {budget:.2f} {currency}")
    return " and ".join(demands)


def engine_named(name: str) -> Engine:
    """Read `--engine`. Raises ConfigError."""
    if name not in ENGINES:
        raise ConfigError([f"--engine: {name!r} is unknown to `predict` (known: {', '.join(ENGINES)})"])
    return ENGINES[name]
