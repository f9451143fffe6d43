"""Notes to the user if ranks of a script would train the whole network each on their own."""

from collections.abc import Iterator, Set

from orchestrator.launch_layout import Layout
from orchestrator.runs.launchers.find_script_imports import imported_names, mentions, packages
from orchestrator.runs.run_record import Run
from orchestrator.runs.script import Source

GUIDE, CHANGES = "docs/guide/scripts.md", "docs/guide/distribute-a-script.md"
ENVIRONMENT_ONLY = ("torchrun", "plain")  # launchers whose ranks know of each other only by their variables
LIGHTNING = {"lightning", "pytorch_lightning"}
TRAINING = {
    *("torch", "tensorflow", "tf_keras", "keras", "jax", "flax", "paddle", "torchvision", "timm", "transformers"),
    *("detectron2", "fastai", "ultralytics", "stable_baselines3", "sklearn", "xgboost", "lightgbm", "catboost"),
}
OWN_RANKS = {"jax.distributed", "keras.distribution.initialize"}  # their processes meet without a launcher
SPAWNING = {"torch.multiprocessing.spawn", "torch.multiprocessing.start_processes", "detectron2.engine.launch"}
ONE_NODE = {"tensorflow.distribute.MirroredStrategy", "tensorflow.distribute.OneDeviceStrategy"}
SEVERAL_NODES = ("MultiWorkerMirroredStrategy", "ParameterServerStrategy")
MORE_NODES = r"num_nodes(?!['\"]?\s*[:=]\s*1\b)"  # "num_nodes: 1" of a template says nothing about this cluster
ULTRALYTICS_RANKS = r"\bdevice['\"]?\s*[=:]\s*['\"\[(]*\d\s*,"  # several GPUs: it expects a rank for each
MMENGINE_RANKS = r"^--launcher\b|\blauncher\s*=\s*['\"]pytorch"


def notes(source: Source, run: Run, layout: Layout) -> Iterator[str]:
    """Yield a note if nothing that the script imports lets its ranks train together.

    Args:
        source: The script and its files.
        run: Run of the script.
        layout: Ranks of the run on each host.
    """
    if len(layout.ranks) > 1:
        names = imported_names(source)
        found = (
            _spawning(source, run, names),
            _without_local_rank(source, run, names),
            _lightning(source, run, layout, names),
            _mmengine(source, names),
            _one_node(run, names),
            _alone(source, run, names),
        )
        yield from [note for note in found if note][:1]


def _spawning(source: Source, run: Run, names: Set[str]) -> str:
    """Return the note for a script that starts the processes of a node itself, and knows no other way."""
    starts = min(SPAWNING & names, default="")
    if not starts or run.launcher not in ENVIRONMENT_ONLY or mentions(source, "LOCAL_RANK"):
        return ""
    return (
        f"the script starts processes itself ({starts}), and each of the {run.np} ranks does so: processes of different"
        f" ranks do not train together by that ({GUIDE}, Scripts that start processes)"
    )


def _without_local_rank(source: Source, run: Run, names: Set[str]) -> str:
    """Return the note for a script of the former torch.distributed.launch, which passed an option to each rank."""
    if run.launcher not in ENVIRONMENT_ONLY or not {"torch", "deepspeed"} & packages(names):
        return ""
    if mentions(source, "LOCAL_RANK") or not mentions(source, r"--local[_-]rank"):
        return ""
    return (
        "the script has an option --local_rank, which `run` does not pass, as torchrun does not: if its default means"
        f" one process, each rank trains on its own. Take it from the variable LOCAL_RANK ({GUIDE}, Scripts with"
        " --local_rank)"
    )


def _lightning(source: Source, run: Run, layout: Layout, names: Set[str]) -> str:
    if not LIGHTNING & packages(names) or run.launcher not in ENVIRONMENT_ONLY:
        return ""
    if len(set(layout.ranks)) == 1 or mentions(source, MORE_NODES):
        return ""
    return (
        "Lightning does not learn the number of nodes from its launcher: without Trainer(num_nodes=...) every"
        f" node, or every rank, trains on its own ({GUIDE}, PyTorch Lightning)"
    )


def _mmengine(source: Source, names: Set[str]) -> str:
    if "mmengine.runner" not in names or mentions(source, MMENGINE_RANKS):
        return ""
    return "MMEngine joins the ranks only if the script gets `--launcher pytorch`: else each rank trains on its own"


def _one_node(run: Run, names: Set[str]) -> str:
    """Return the note for a strategy of tf.distribute that knows the devices of one process alone."""
    strategy = min(ONE_NODE & names, default="").rpartition(".")[2]
    if not strategy or run.launcher != "tensorflow" or any(name.endswith(SEVERAL_NODES) for name in names):
        return ""
    return (
        f"{strategy} uses the devices of one process, so each of the {run.np} ranks trains on its own: --np 1 starts"
        " it once, MultiWorkerMirroredStrategy uses all ranks"
    )


def _alone(source: Source, run: Run, names: Set[str]) -> str:
    imported = packages(names)
    if run.launcher != "plain" or not TRAINING & imported or LIGHTNING & imported:
        return ""
    if any(f"{name}.".startswith(f"{own}.") for name in names for own in OWN_RANKS):
        return ""
    if "ultralytics" in imported and mentions(source, ULTRALYTICS_RANKS):
        return ""
    return (
        f"each of the {run.np} ranks runs the whole script on its own: if it trains, --np 1 starts it once, or five"
        f" changes let the ranks train together ({CHANGES})"
    )
