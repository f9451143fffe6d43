"""Choose the checkpoint from which a training run is resumed."""

from orchestrator import progress
from orchestrator.errors import StateError, command
from orchestrator.runs.run_record import Run
from orchestrator.schema import CheckpointEntry, Checkpoints


def newest(index: Checkpoints, old: Run, np: int, cluster: str) -> CheckpointEntry:
    """Return the newest checkpoint that ``np`` ranks can continue from.

    Args:
        index: Checkpoints of ``old``.
        old: Training run to continue.
        np: Number of ranks to continue with.
        cluster: Name of the cluster.

    Returns:
        The newest checkpoint if it has ``np`` ranks, else the newest at the end of an epoch.

    Raises:
        StateError: There is none.
    """
    last = index.entries[-1]
    if last.world == np:
        return last
    whole = [checkpoint for checkpoint in index.entries if checkpoint.whole]
    if not whole:
        again = command(f"train --resume {old.id} --np {last.world}", cluster)
        what = f"run {old.id} stopped within its first epoch, which only {last.world} ranks can continue, not {np}"
        raise StateError(what, f"{again}, on as many slots")
    was = f"{np} ranks instead of {whole[-1].world}"
    progress.note(
        f"{was}: continues from the end of epoch {whole[-1].epoch}; weights will differ from an uninterrupted run"
    )
    return whole[-1]
