"""One launch of a cell on the cluster: started as `orchestrator train` starts it, awaited, fetched, measured."""

import time
from collections.abc import Callable
from pathlib import Path

from orchestrator import cpu_usage, progress, providers, ssh, state
from orchestrator.cluster import Cluster, hosts
from orchestrator.config import Config, stored
from orchestrator.errors import ConfigError, ContractError, StateError, command
from orchestrator.lifecycle import deploy
from orchestrator.runs import collected_files, control, jobs, store
from orchestrator.runs.control import RunState
from orchestrator.runs.run_record import Run
from orchestrator.schema.studies import Launch
from orchestrator.state import Record, StateDir
from orchestrator.studies import settings
from orchestrator.studies.journal import Journal, Started
from orchestrator.studies.launch_schedule import Planned
from orchestrator.studies.measure_launch import measured, of_turn, seconds_of
from orchestrator.studies.study_definition import Study

Deployed = Callable[[Config], tuple[StateDir, Cluster, str]]
NOTHING = {"step_seconds": None, "images_per_second": None}  # of a launch that failed


def resized(record: Record, nodes: int) -> Config:
    """Return the configuration of a deployed cluster with another number of nodes."""
    return stored(record.config).model_copy(update={"nodes": nodes, "min_nodes": None})


class Launcher:
    """Launches of a study on the cluster of ``config``.

    Args:
        config: Configuration of the cluster.
        study: The study as it is measured.
        journal: Where launches are written down.
        deployed: Returns state directory, cluster and digest of its trainer, if it has the framework of a launch.
        deploys: Whether the cluster may grow and shrink to the nodes of a cell.
    """

    def __init__(self, config: Config, study: Study, journal: Journal, deployed: Deployed, deploys: bool) -> None:
        self.config, self.study, self.journal = config, study, journal
        self.deployed, self.deploys = deployed, deploys
        self.state_dir = state.for_cluster(config.name)
        self.record, self.cluster = state.deployed(self.state_dir)
        self.nodes: int | None = None  # to which this process has deployed the cluster

    def measure(self, planned: Planned) -> Launch:
        """Launch a cell, wait for its end, and write down what it measured.

        Raises:
            NodesFailed, StateError: The cluster cannot run anything now.
        """
        cell = planned.contestant.cell
        self._resize(cell.nodes)
        used = self._busy(hosts(self.cluster, cell.ranks))
        started = self.start(planned, self.journal.begin, used)
        return self._finish(started) if isinstance(started, Run) else started

    def start(
        self, planned: Planned, begin: Callable[[Started], None], used: float = 0.0, queue: str | None = None
    ) -> Run | Launch:
        """Start a launch, or prepare it for a queue.

        Args:
            planned: The launch.
            begin: Called before the run starts, to write it down.
            used: Share of CPU that programs use on its nodes.
            queue: Id of the queue that will start the run; None to start it now.

        Returns:
            The run; a launch with a problem, already in the journal, if the cell cannot be launched.
        """
        cell, again = planned.contestant.cell, planned.contestant.again
        config = settings.of_cell(self.config, self.study, cell)
        began = time.monotonic()  # the other clock may be set meanwhile
        launch = Launch(
            cell=cell,
            key=cell.key,
            round=planned.round,
            again=again,
            started=time.time(),
            seconds=0.0,
            busy=used,
            command=settings.command(config),
        )

        def record_start(run: Run) -> None:
            fields = launch.model_dump(exclude={"cell", "run"})
            begin(Started.model_validate({**fields, "cell": cell, "run": run.id}))

        _, self.cluster, digest = self.deployed(config)
        try:
            with progress.quiet():
                return jobs.train(self.state_dir, self.cluster, digest, config, record_start, queue=queue)
        except ConfigError as error:
            launch = launch.model_copy(update={"problem": error.message, "seconds": time.monotonic() - began})
            self.journal.end(launch)
            return launch

    def collect(self) -> Launch | None:
        """Finish the launch that was under way when the study was killed; None if there is none, or it never ran."""
        started = self.journal.started
        if started is None:
            return None
        run = next((run for run in store.list_runs(self.state_dir) if run.id == started.run), None)
        if run is None or self.is_lost(run):
            self.journal.forget()
            return None
        return self._finish(run, collected=True)

    def is_lost(self, run: Run) -> bool:
        """Tell whether a run left nothing: it was recorded, and not started. A start on its way there is ended."""
        with control.head_session(self.state_dir, self.cluster) as head:
            lost = control.get_state(self.state_dir, head, run).state == "lost"
            if lost:
                control.stop(head, run, wait=False)
        return lost

    def _finish(self, run: Run, collected: bool = False) -> Launch:
        """Wait for the end of a run, and record it as :meth:`record_end` does."""
        started = self.journal.started
        if started is None:
            lists = command("runs", self.config.name)
            raise StateError(f"run {run.id} is no launch of this study", f"{lists} lists it")
        for _ in control.watch(self.state_dir, self.cluster, run):
            pass
        return self.record_end(started, run, collected)

    def record_end(self, started: Started, run: Run, collected: bool = True) -> Launch:
        """Fetch the files of a run that has ended, and write its measurement down.

        Args:
            started: The launch; the time at which a queue started its run is in the run's files.
            run: The run.
            collected: Whether it was started before this process, and may have ended long ago.

        Returns:
            The launch, as it is in the journal.
        """
        with progress.quiet():
            directory, run_state = self._fetch(run)
        started = of_turn(started, directory)
        launch = measured(started, directory, seconds_of(started, run_state.status if collected else None))
        if run_state.state != "finished":
            problem = f"run {run.id} {control.cause(run_state, self.cluster)}"
            launch = launch.model_copy(update={**NOTHING, "problem": problem})
        self.journal.end(launch)
        return launch

    def _fetch(self, run: Run) -> tuple[Path, RunState]:
        """Fetch a run; return the directory of its files, and how it ended.

        Checkpoints are removed on the cluster: those of many launches would fill its storage.
        """
        with control.head_session(self.state_dir, self.cluster) as head:
            run_state = control.get_state(self.state_dir, head, run)
            fetched = collected_files.collect(self.state_dir, head, run, checkpoints=False).directory
            head.run(["rm", "-rf", f"{run.directory}/checkpoints"])
        return self.journal.keep(fetched, run.id), run_state

    def _resize(self, nodes: int | None) -> None:
        """Deploy the cluster with the nodes of a cell, if it may change.

        The first time it does so even if the number is right, since a study may be killed during a deploy.
        """
        if nodes is None or not self.deploys or nodes == self.nodes:
            return
        deploy.deploy(resized(self.record, nodes))
        self.record, self.cluster = state.deployed(self.state_dir)
        self.nodes = nodes

    def _busy(self, nodes: list[str]) -> float:
        """Return the share of CPU that programs use on the nodes of a launch before it starts: of the busiest one.

        Raises:
            ContractError: A node sends something else.
        """
        if providers.of_one_machine(self.record):
            return cpu_usage.measure()

        def ask(name: str) -> float:
            with ssh.connect(self.state_dir, self.cluster, name) as session:
                readings = session.must("read its load", ["sh", "-c", cpu_usage.READINGS])
            try:
                return cpu_usage.of(readings)
            except ValueError as error:
                at = command(f"ssh {name}", self.cluster.name)
                raise ContractError(f"{name} sends {error}", f"{at} opens a terminal on it") from None

        shares, _ = ssh.on_every_node(self.cluster, ask, nodes)
        return max(shares.values(), default=0.0)
