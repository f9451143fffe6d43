"""Notes to the user if processes of a script may use the same GPU."""

from collections import Counter
from collections.abc import Iterator

from orchestrator.cluster import Cluster
from orchestrator.launch_layout import WORKER, Layout
from orchestrator.runs.run_record import Run


def notes(cluster: Cluster, run: Run, layout: Layout) -> Iterator[str]:
    """Yield a note if ranks of a node share a GPU, and one if each must choose its own.

    Args:
        cluster: Deployed cluster.
        run: Run of a user's script.
        layout: Ranks of the run on each host.
    """
    ranks = Counter(layout.ranks[rank] for rank in layout.with_role(WORKER))
    with_gpus = {name: node for name, node in cluster.nodes.items() if node.gpus}
    crowded = {name: node for name, node in with_gpus.items() if ranks[node.private_address] > node.gpus}
    if crowded:
        name, node = next(iter(crowded.items()))
        shared = f"{ranks[node.private_address]} ranks of {name} share {node.gpus} GPUs"
        yield f"{shared}, which NCCL refuses: deploy without slots, or with fewer"
    if run.launcher == "plain" and any(ranks[node.private_address] > 1 for node in with_gpus.values()):
        yield (
            f"each of the {run.np} processes sees all GPUs of its node: a script for one GPU uses the first in every"
            " process; start it with --np 1, or let it set CUDA_VISIBLE_DEVICES to LOCAL_RANK before it uses a GPU"
        )
