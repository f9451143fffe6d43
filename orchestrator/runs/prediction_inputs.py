"""Find the inputs of predictions among the runs of a cluster: profiles of one rank, and checks of the link."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from orchestrator.cluster import Cluster
from orchestrator.prediction import link_fit, link_kinds
from orchestrator.prediction.allreduce_time import Link, latencies
from orchestrator.prediction.cluster_links import Connection
from orchestrator.prediction.link_fit import Point
from orchestrator.runs import provenance, store
from orchestrator.runs.check import KIND, MEASURED
from orchestrator.runs.run_record import Run
from orchestrator.schema import CheckResult, Hardware, Profile, bounded_files
from orchestrator.schema.bounded_files import Unreadable
from orchestrator.state import StateDir

PROFILE, RESULTS = "profile.json", "results.json"
Content = TypeVar("Content", bound=BaseModel)


class ProfileQuery(NamedTuple):
    """Training whose profile is searched; None matches any value, and a profile of a GPU any number of threads."""

    model: str
    image_size: int | None
    batch: int | None = None
    precision: str | None = None
    threads: int | None = None

    def fits(self, profile: Profile) -> bool:
        """Tell whether ``profile`` matches."""
        return (
            profile.model == self.model
            and self.image_size in (None, profile.image_size)
            and self.batch in (None, profile.batch)
            and self.precision in (None, "auto", profile.precision)
            and (profile.on_gpu or self.threads in (None, profile.threads))
            and len(profile.steps) > 1
            and min(profile.steps) > 0
        )


class LinkQuery(NamedTuple):
    """Ranks whose link is searched.

    Attributes:
        nodes: Most nodes of a prediction. If they are several, checks inside one node are left out.
        slots: Ranks of a node.
        local: Link among the ranks of a node, if no check measured it.
        controller: Checks over another one are left out; "auto" takes any.
    """

    nodes: int
    slots: int
    local: Link = link_kinds.LOOPBACK
    controller: str = "gloo"

    def fits(self, result: CheckResult) -> bool:
        """Tell whether ``result`` measured a link that these ranks have."""
        measured = bool(result.sizes) and all(message.latency_seconds > 0 for message in result.sizes)
        return result.size > 1 and measured and not (self.nodes > 1 and _nodes(result) == 1)


@dataclass(frozen=True)
class History:
    """Runs of a cluster, which are listed once.

    Attributes:
        state_dir: State directory of the cluster.
        processors: Those of the nodes for which runs are searched: runs that had only others are left out, as if their
            cluster had another name. Empty if the nodes are not known.
    """

    state_dir: StateDir
    processors: frozenset[str] = frozenset()

    @cached_property
    def runs(self) -> list[Run]:
        """Return the runs, newest first."""
        return store.list_runs(self.state_dir)[::-1]

    def read(self, run: Run, name: str, form: type[Content]) -> Content | None:
        """Return the content of a run's file; None if it is missing or unreadable, or if the run is left out."""
        content = read(self.state_dir.runs / run.id / name, form)
        return content if content is not None and self._had_processors(run) else None

    def _had_processors(self, run: Run) -> bool:
        recorded = self.processors and read(self.state_dir.runs / run.id / provenance.FILE, provenance.Provenance)
        if not recorded:
            return True
        known = processors(node.hardware for node in recorded.nodes.values() if node.hardware)
        return not known or not known.isdisjoint(self.processors)


def processors(nodes: Iterable[Hardware]) -> frozenset[str]:
    """Return the names of the CPUs and GPUs of nodes, one text for each kind of node."""
    return frozenset(", ".join([node.cpu_model or node.architecture, *node.gpus]) for node in nodes)


def profile(history: History, query: ProfileQuery) -> Profile | None:
    """Return the newest profile of ``query`` among the runs of a cluster; None if there is none."""
    profiles = (history.read(run, PROFILE, Profile) for run in history.runs)
    return next((candidate for candidate in profiles if candidate and query.fits(candidate)), None)


def connection(history: History, query: LinkQuery) -> tuple[Connection, str] | None:
    """Return the connection of ``query`` by the newest check of a cluster, and what it is known from.

    It has the messages that were measured; None if no such check was fetched.
    """
    for run in history.runs:
        if run.kind == KIND and query.controller in ("auto", run.controller):
            result = history.read(run, MEASURED, CheckResult)
            if result and query.fits(result):
                nodes = _nodes(result)
                text = f"run {run.id}: check of {result.size} ranks on {nodes} node{'' if nodes == 1 else 's'}"
                return _connection(result, query), text
    return None


def _nodes(result: CheckResult) -> int:
    return len({rank.host for rank in result.ranks})


def _connection(result: CheckResult, query: LinkQuery) -> Connection:
    nodes = _nodes(result)
    between, within = latencies(nodes, result.size) if nodes > 1 else (None, 0)
    waited = within * query.local.alpha
    points = [Point(result.size, m.bytes, m.latency_seconds, m.cpu_seconds, between, waited) for m in result.sizes]
    link = replace(link_fit.link(points, link_kinds.CPU_LOAD), share=query.local.share)
    local = link if nodes == 1 else query.local
    return Connection(link, local, query.slots, points=points)


def cores(cluster: Cluster, slots: int | None = None) -> float:
    """Return the cores of a rank, on the node with the fewest; a local node may have a part of one.

    ``slots`` are the ranks of a node, if not as deployed.
    """
    return min(each.cpus / (slots or each.slots) for each in cluster.rank_nodes.values())


def read(path: Path, form: type[Content]) -> Content | None:
    """Return the content of a file; None if it is missing or unreadable."""
    with suppress(FileNotFoundError, Unreadable):
        return bounded_files.read_model(path, form)
    return None
