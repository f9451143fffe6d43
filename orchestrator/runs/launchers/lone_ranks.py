"""Notes to the user if ranks of a script would train the whole network each on their own."""

from collections.abc import Iterator

from orchestrator.launch_layout import Layout
from orchestrator.runs.launchers import find_script_imports
from orchestrator.runs.run_record import Run
from orchestrator.runs.script import Source

LIGHTNING = {"lightning", "pytorch_lightning"}
TRAINING = {"torch", "tensorflow", "tf_keras", "keras", "jax"}
JAX_RANKS = "jax.distributed"  # its processes meet without a launcher


def notes(source: Source, run: Run, layout: Layout) -> Iterator[str]:
    """Yield a note if nothing that the script imports lets its ranks train together.

    Args:
        source: The script and its files.
        run: Run of the script.
        layout: Ranks of the run on each host.
    """
    names = find_script_imports.imported_names(source)
    packages = {name.partition(".")[0] for name in names}
    if packages & LIGHTNING and run.launcher in ("torchrun", "plain"):
        if len(set(layout.ranks)) > 1 and not find_script_imports.mentions(source, "num_nodes"):
            yield (
                "Lightning does not learn the number of nodes from its launcher: without Trainer(num_nodes=...) every"
                " node, or every rank, trains on its own (docs/guide/scripts.md, PyTorch Lightning)"
            )
    elif run.launcher == "plain" and run.np > 1 and packages & TRAINING and not _mentions_jax_ranks(names):
        yield f"each of the {run.np} ranks runs the whole script on its own: if it trains, --np 1 starts it once"


def _mentions_jax_ranks(names: set[str]) -> bool:
    return any(f"{name}.".startswith(f"{JAX_RANKS}.") for name in names)
