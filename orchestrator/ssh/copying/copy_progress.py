"""State of a copy, which outlives its connections."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.cluster import Cluster
from orchestrator.errors import NodesFailed
from orchestrator.ssh import connect
from orchestrator.ssh.channels import Unreachable
from orchestrator.ssh.copying.tree import Tree
from orchestrator.ssh.session import Session
from orchestrator.state import StateDir

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before a connection that broke without progress is made again
SHOW_SECONDS = 0.2  # between two lines of progress


@dataclass
class Copied:
    """Result of a copy.

    Attributes:
        target: Where the copy is.
        files: Number of files.
        bytes: Their size.
        sent: Bytes that crossed the connection this time.
        same: Files that were there with the same size and time, and were not sent.
        left_out: The reason for each link and special file that is not copied.
    """

    target: str = ""
    files: int = 0
    bytes: int = 0
    sent: int = 0
    same: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass
class Progress:
    """State of a copy that continues after its connection broke.

    Attributes:
        detail: Called with a line of progress.
        copied: The result so far.
        root: Where the files are written: the target, or the unfinished copy of a new directory.
        done: Files that are in place.
        unfinished: Bytes sent this time of a file that is not in place yet.
        position: Offset in that file behind the last byte that was counted; None before the file is begun.
        shown: When the last line of progress was shown.
    """

    detail: Callable[[str], None] = lambda _: None
    copied: Copied = field(default_factory=Copied)
    root: str = ""
    done: set[str] = field(default_factory=set)
    unfinished: int = 0
    position: int | None = None
    shown: float = 0.0

    @property
    def is_renamed_at_end(self) -> bool:
        """Tell whether ``root`` gets the name of the target once all files are in it."""
        return self.root != self.copied.target

    def begin(self, tree: Tree, target: str, root: str) -> None:
        """Note what is copied to ``target``, and that its files are written to ``root``."""
        self.root, size = root, sum(entry.size for entry in tree.files.values())
        self.copied = Copied(target, len(tree.files), size, left_out=tree.left_out)

    def begin_file(self, position: int) -> None:
        """Note that a file is copied from ``position``, and count what arrived uncounted before a connection broke."""
        uncounted = 0 if self.position is None else max(0, position - self.position)
        self.position = position - uncounted
        self.count(uncounted)

    def count(self, size: int) -> None:
        """Count ``size`` bytes that cross the connection."""
        self.copied.sent += size
        self.unfinished += size
        self.position = (self.position or 0) + size
        self._show()

    def complete(self, name: str) -> None:
        """Note that the file ``name`` is in place."""
        self.done.add(name)
        self.unfinished, self.position = 0, None
        self._show()

    def kept(self) -> str:
        """Return what an interrupted copy leaves for the next command; "" if nothing."""
        count = f"{len(self.done):,} of {self.copied.files:,} files are"
        if self.is_renamed_at_end:
            kept = [f"{count} in the directory .NAME….part next to the target"] * bool(self.done or self.unfinished)
        else:
            part = "the copied part stays in a file .NAME….part next to the target" if self.unfinished else ""
            kept = [text for text in (f"{count} in place" if self.done else "", part) if text]
        return "; ".join([*kept, "the same command continues"]) if kept else ""

    def _show(self) -> None:
        if time.monotonic() - self.shown < SHOW_SECONDS:
            return
        self.shown = time.monotonic()
        size, count = self.copied.bytes, self.copied.files
        texts = [f"{self.copied.sent >> 20:,} of {size >> 20:,} MiB"] if size >> 20 or count < 2 else []
        if count > 1:
            texts.append(f"{len(self.done):,} of {count:,} files")
        self.detail(", ".join(texts))


def persist(
    state_dir: StateDir, cluster: Cluster, node: str, progress: Progress, work: Callable[[Session], None]
) -> Copied:
    """Call ``work`` with a session on a node, and again with a new one if the connection breaks.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        node: Name of the node.
        progress: State of the copy; as long as it sends more each time, it is continued.
        work: Copies what is not there yet.

    Returns:
        What was copied.

    Raises:
        NodesFailed: Several connections in a row failed.
    """
    failures, sent = 0, 0
    while True:
        try:
            with connect(state_dir, cluster, node) as session:
                work(session)
                return progress.copied
        except Unreachable as error:
            failures = failures + 1 if progress.copied.sent == sent else 1
            sent = progress.copied.sent
            if failures > len(PAUSES):
                hint = "run the same command again to continue"
                raise NodesFailed("the copy is not complete", {node: str(error)}, hint) from error
        time.sleep(PAUSES[failures - 1])
