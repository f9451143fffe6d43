"""teardown: everything that was made is removed, whatever part of it is there, and a receipt says so."""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from orchestrator import ansible, lock, progress, providers, records, runs, state, terraform
from orchestrator.errors import CommandFailed, OrchestratorError, PreflightError, command
from orchestrator.launch import Run
from orchestrator.providers import Provider, Resource
from orchestrator.ssh import Session
from orchestrator.state import Home, Record


@dataclass(frozen=True)
class Receipt:
    """What a teardown found made, and what of it is left."""

    cluster: str
    made: list[Resource]
    left: list[Resource]

    @property
    def gone(self) -> list[Resource]:
        return [resource for resource in self.made if resource not in self.left]


def teardown(name: str) -> Receipt:
    """Remove a cluster, whatever part of it is there; runs and their results stay. Needs only the state directory."""
    place = state.home(name)
    if state.read(place) is None:
        _mention_orphans(name)
        return Receipt(name, [], [])
    with lock.held(place):
        record = state.read(place)
        if record is None:
            return Receipt(name, [], [])
        provider = providers.get(record.config["provider"])
        made = provider.survey(record)
        _save_runs(place, record)
        with progress.step("Destroying") as step:
            _destroy(place, provider, record, step)
        left = provider.survey(record)
        if not left:
            ansible.forget(place)
            state.forget(place)
    return Receipt(name, made, left)


def _mention_orphans(name: str) -> None:
    """Nothing is known here, but something may be there all the same."""
    with suppress(OrchestratorError):
        found = orphans(name)
        if found:
            listed, removes = ", ".join(map(str, found)), command("teardown --orphans", name)
            progress.note(f"not of this state directory, and left alone: {listed}; {removes} removes them")


def _destroy(place: Home, provider: Provider, record: Record, step: progress.Step) -> None:
    """Destroy what Terraform's state holds. Where that fails, what carries our labels is removed all the same."""
    with _noting("removing what Terraform does not know"):  # first: a stray node would hold the network
        provider.remove(strays(place, provider, record))
    try:
        terraform.destroy(place, record.config["provider"], step.detail)
    except (CommandFailed, PreflightError) as error:
        progress.note(f"{error.message}\nremoving by label instead")
    with _noting("removing by label"):  # of what stays, the receipt tells
        provider.remove(provider.survey(record))


def _save_runs(place: Home, record: Record) -> None:
    """Stop what runs and fetch what was not fetched, as far as that can be done: nothing here holds a teardown up."""
    with _noting("runs could not be saved"):
        pending = [run for run in records.known(place) if not records.is_collected(place, run)]
        if pending and record.cluster:
            with progress.step("Saving results of runs") as step, runs.head_session(place, record.cluster) as head:
                for run in pending:
                    step.detail(run.id)
                    with _noting(f"run {run.id} could not be saved"):
                        _save_run(place, head, run)


def _save_run(place: Home, head: Session, run: Run) -> None:
    if runs.look(place, head, run).state == "running":
        runs.stop(head, run)
    records.collect(place, head, run)


@contextmanager
def _noting(what: str) -> Iterator[None]:
    """Go on after an error, and after a record or a result that cannot be read."""
    try:
        yield
    except (OrchestratorError, OSError, ValueError, tarfile.TarError) as error:
        progress.note(f"{what}: {error}")


def orphans(name: str, provider: str = "local") -> list[Resource]:
    """What carries the label of cluster ``name`` although this state directory does not know it."""
    record = state.read(state.home(name))
    known = {resource.key for resource in providers.get(provider).survey(record)} if record else set()
    return [resource for resource in providers.get(provider).strangers(name) if resource.key not in known]


def remove_orphans(name: str, found: list[Resource], provider: str = "local") -> Receipt:
    """Remove of ``found`` what is still there and still an orphan, and nothing else."""
    shown = {resource.key for resource in found}
    with lock.held(state.home(name)):
        providers.get(provider).remove(r for r in orphans(name, provider) if r.key in shown)
        left = [resource for resource in orphans(name, provider) if resource.key in shown]
    return Receipt(name, found, [resource for resource in found if resource.key in {r.key for r in left}])


def strays(place: Home, provider: Provider, record: Record) -> list[Resource]:
    """What is there without Terraform's knowledge: an interrupted apply leaves such things."""
    held = set(terraform.recorded(place, record.config["provider"]).values())
    return [resource for resource in provider.survey(record) if resource.name not in held]
