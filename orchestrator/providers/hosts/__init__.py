"""Provider of existing machines, reached only by ssh. A teardown keeps them and removes what a deploy put on them."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from orchestrator import gpu_compatibility, progress, state
from orchestrator.cluster import Cluster
from orchestrator.config import Config, expanded, stored
from orchestrator.docker import context
from orchestrator.errors import NodesFailed, PreflightError, gather
from orchestrator.providers import Resource, trainer_image
from orchestrator.providers.hosts import (
    adoption,
    container_checks,
    preflight_checks,
    reachability,
    selection,
    survey_answers,
)
from orchestrator.providers.hosts.host_set import HostSet, cluster_of
from orchestrator.providers.hosts.restore_hosts import LOGIN_SECONDS, OnLine, release
from orchestrator.providers.hosts.survey_answers import SurveyedHost
from orchestrator.ssh import pinned_host_keys
from orchestrator.state import Record, StateDir

KIND = "host"


def preflight(config: Config, record: Record | None) -> None:
    """Check that every host can be reached and be a node. Bad hosts are left out if ``min_nodes`` good ones remain."""
    if not shutil.which("ssh"):
        return  # another check reports it
    identity = config.hosts.identity
    if identity and not expanded("hosts.identity", identity).is_file():
        raise PreflightError(f"hosts.identity: {identity}: no such file", "name a private key, or leave it out")
    if identity and "${" in str(expanded("hosts.identity", identity).absolute()):  # ssh has no way to quote it
        problem = f"hosts.identity: {identity}: ssh would replace ${{...}} in its path by an environment variable"
        raise PreflightError(problem, "move the key to a path without ${")
    surveyed = survey_answers.survey(config)
    by_host = preflight_checks.problems(surveyed, config, record.id if record else "")
    good = [host for host, problems in zip(surveyed, by_host, strict=True) if not problems]
    enough = surveyed[0] in good and len(good) >= (config.min_nodes or config.nodes)
    problems = [] if enough else [problem for host_problems in by_host for problem in host_problems]
    changes = selection.refused_changes(config, record, surveyed[0]) if record else []
    between = preflight_checks.conflicts(surveyed) or reachability.blocked(good)
    gather(
        *(partial(_throw, p) for p in [*between, *problems, *changes]),
        lambda: survey_answers.account_id(surveyed),
    )
    for line in container_checks.notes(surveyed, config):
        progress.note(line)


def _throw(error: PreflightError) -> NoReturn:
    raise error


def default_allow_from(config: Config, record: Record | None) -> list[str]:
    """Return no network: the way to the hosts already exists and stays open."""
    return []


def variables(config: Config, record: Record) -> dict[str, Any]:
    """Return the hosts as they were seen, and former nodes to give back."""
    return selection.select(config, record).model_dump(mode="json")


def gpu_and_image(config: Config, record: Record | None) -> tuple[str | None, str]:
    """Return the oldest GPUs, and the system of the hosts with GPUs. The preflight reports hosts without a survey.

    Raises:
        PreflightError: The configuration does not fit a model of GPU that a host has; it names the host.
    """
    surveyed = survey_answers.last_survey(config)
    models = {host.survey.gpu: host for host in reversed(surveyed) if host.survey and host.survey.gpus}
    gather(*(partial(_require_gpu, host, config) for host in reversed(models.values())))
    surveys = [host.survey for host in surveyed if host.survey]
    with_gpus = [survey for survey in surveys if survey.gpus]
    systems = {survey.system for survey in with_gpus or surveys}
    return gpu_compatibility.oldest(survey.gpu for survey in with_gpus), systems.pop() if len(systems) == 1 else ""


def _require_gpu(host: SurveyedHost, config: Config) -> None:
    if host.survey:
        system = gpu_compatibility.distribution(host.survey.system)
        try:
            gpu_compatibility.resolve(host.survey.gpu, config.gpu, system, config.framework)
        except PreflightError as error:
            where, remedy = f"hosts.addresses: {host.login}", f"{error.hint}; or leave this host out"
            raise PreflightError(f"{where}: {error.message}", remedy) from error


def prepare(record: Record, state_dir: StateDir) -> None:
    """Prepare the trainer's image, unless the hosts have the trainer installed."""
    if stored(record.config).hosts.trainer == "container":
        trainer_image.prepare(record, state_dir)


def trainer_digest(record: Record) -> str:
    """Return the digest of the trainer that the nodes must have."""
    if stored(record.config).hosts.trainer == "container":
        return trainer_image.trainer_digest(record)
    return context.digest(context.variant(stored(record.config)))


def unmanaged(state_dir: StateDir, record: Record) -> Sequence[Resource]:
    """Return nothing: the record names every host."""
    return []


def provision(
    state_dir: StateDir, record: Record, unmanaged: Sequence[Resource], on_line: OnLine
) -> tuple[Cluster, dict[str, str]]:
    """Adopt the hosts, and give back former nodes that are not wanted any more.

    Args:
        state_dir: State directory of the cluster.
        record: Record of the deployment.
        unmanaged: Always empty.
        on_line: Receives lines of progress.

    Returns:
        The cluster, and the missing nodes with reasons.

    Raises:
        NodesFailed: The head, or too many nodes, cannot be adopted.
    """
    host_set, name = HostSet.model_validate(record.variables["hosts"]), record.config["name"]
    if host_set.leaving:
        on_line(f"releasing {', '.join(map(str, host_set.leaving))}")
        release(state_dir, record.id, host_set, adoption.marked_machines(host_set.leaving, record.id), on_line)
    missing = {machine.name: machine.problem for machine in host_set.machines if machine.problem}
    sound = [machine for machine in host_set.machines if not machine.problem]
    missing |= adoption.adopt(name, record.id, host_set, sound, record.variables["ssh_public_key"])
    cluster = _enough(record, host_set, missing)
    try:
        pinned_host_keys.pin(state_dir, cluster, record.host_keys, LOGIN_SECONDS)
    except NodesFailed as failed:
        missing |= failed.reasons
        account = survey_answers.ACCOUNT
        remedy = f"their sshd must let {account} in by a key of ~/.ssh/authorized_keys (AllowUsers, AllowGroups)"
        cluster = _enough(record, host_set, missing, remedy)
    return cluster, missing


def _enough(record: Record, host_set: HostSet, missing: Mapping[str, str], remedy: str = "") -> Cluster:
    """Return the cluster without ``missing`` nodes. Raise NodesFailed if the head or too many of them are missing."""
    rest = [machine for machine in host_set.machines if machine.name not in missing]
    if len(rest) < record.least or rest[0].role != "head":
        raise NodesFailed("hosts that cannot be nodes", missing, remedy)
    return cluster_of(record.config["name"], host_set, rest, record.variables["slots"])


def destroy(state_dir: StateDir, record: Record, on_line: OnLine) -> None:
    """Undo the work of Ansible and of :func:`provision`. The receipt lists what remains.

    What remains is no cluster any more: a deploy may then choose another head, storage or trainer.

    Args:
        state_dir: State directory of the cluster.
        record: Record of the deployment.
        on_line: Receives lines of progress.
    """
    host_set = selection.last_hosts(record)
    if host_set:
        release(state_dir, record.id, host_set, adoption.marked_machines(host_set.everyone, record.id), on_line)
        state.write(state_dir, record.model_copy(update={"cluster": None}))


def list_resources(record: Record) -> list[Resource]:
    """Return hosts that have this deployment's mark, and those that do not answer: they may have it."""
    host_set = selection.last_hosts(record)
    held = adoption.marked_machines(host_set.everyone, record.id) if host_set else {}
    return [Resource(KIND, str(machine), machine.id, answers) for machine, answers in held.items()]


def to_replace(record: Record, recorded: Mapping[str, str]) -> list[str]:
    """Return nothing: a host cannot be made again."""
    return []


def priced(config: Config) -> dict[str, int]:
    """Return nothing: hosts have no price."""
    return {}


def failure_reasons(record: Record) -> dict[str, str]:
    """Return nothing: :func:`provision` returns the reasons itself."""
    return {}


def unowned_resources(config: Config) -> list[Resource]:
    """Return hosts of the configuration that are nodes of a cluster of this name."""
    return [Resource(KIND, str(machine), machine.id) for machine in selection.marked_hosts(config)]


def remove(config: Config, resources: Iterable[Resource]) -> None:
    """Give back hosts that are nodes of this cluster in another, or a lost, state directory."""
    chosen = {resource.key for resource in resources}
    deployments = {
        machine: deployment for machine, deployment in selection.marked_hosts(config).items() if machine.id in chosen
    }
    for deployment in sorted(set(deployments.values())):
        machines = [machine for machine in deployments if deployments[machine] == deployment]
        host_set = HostSet(machines=machines, storage=config.hosts.storage, trainer=config.hosts.trainer)
        release(state.for_cluster(config.name), deployment, host_set, dict.fromkeys(machines, True), lambda line: None)
