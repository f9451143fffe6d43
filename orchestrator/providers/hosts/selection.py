"""Selection of the machines to use as nodes, from the hosts as seen and from the last deploy."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from orchestrator import state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import PreflightError, StateError, command
from orchestrator.providers.hosts import adoption, preflight_checks, survey_answers
from orchestrator.providers.hosts.host_set import HostSet, Machine
from orchestrator.providers.hosts.survey_answers import SurveyedHost
from orchestrator.schema import bounded_files
from orchestrator.state import Record


def last_hosts(record: Record) -> HostSet | None:
    """Return the hosts of the last deploy.

    Raises:
        StateError: The record of it is damaged.
    """
    hosts = record.variables.get("hosts")
    if hosts is None and record.cluster is None:
        return None
    try:
        return HostSet.model_validate(hosts)
    except ValidationError as error:
        state_dir = state.for_cluster(record.config["name"])
        what = f"{state_dir.record} cannot be used: variables.hosts: {bounded_files.problems(error)}"
        raise StateError(what, state.repair(state_dir)) from None


def select(config: Config, record: Record) -> HostSet:
    """Return the hosts of this deploy.

    Raises:
        PreflightError: ACCOUNT cannot have the same number on all hosts.
    """
    surveyed, previous = survey_answers.last_survey(config), last_hosts(record)
    problems = preflight_checks.problems(surveyed, config, record.id)
    used = [_node(host, found, previous) for host, found in zip(surveyed, problems, strict=True)]
    if config.gpu.driver == "none":
        used = [machine.model_copy(update={"gpus": 0}) for machine in used]
    uid, gid = survey_answers.account_id(surveyed)
    return HostSet(
        machines=used,
        leaving=_leaving(previous, used, record.id) if previous else [],
        storage=config.hosts.storage,
        trainer=config.hosts.trainer,
        uid=uid,
        gid=gid,
    )


def refused_changes(config: Config, record: Record, first: SurveyedHost) -> list[PreflightError]:
    """Return the changes that would leave runs or files of the deployed cluster behind.

    Args:
        config: The configuration.
        record: Record of the deployment.
        first: The first host of the configuration.

    Returns:
        One error for each change.
    """
    cluster, removes = record.cluster, f"{command('teardown', config.name)} first"
    if cluster is None:
        return []
    deployed = f"cluster {config.name!r} is deployed with"
    errors = [
        PreflightError(f"hosts.{key}: {new}, but {deployed} {old}", f"set hosts.{key}: {old} again, or {removes}")
        for key in ("storage", "trainer")
        if (new := getattr(config.hosts, key)) != (old := getattr(cluster, key))
    ]
    head = _head_login(record, cluster)
    if _is_another(first, head, cluster):
        what = f"hosts.addresses: the first is {first.login}, but {deployed} the head {head}, which has its runs"
        errors.append(PreflightError(what, f"put {head} first again, or {removes}"))
    return errors


def _head_login(record: Record, cluster: Cluster) -> str:
    head, host_set = cluster.nodes[cluster.head], last_hosts(record)
    logins = {machine.id: str(machine.login) for machine in host_set.everyone} if host_set else {}
    return logins.get(head.id, head.address)


def _is_another(first: SurveyedHost, head: str, cluster: Cluster) -> bool:
    """Return whether ``first`` is not the head, which is known by its id, or by its login if it was reinstalled."""
    if first.survey is None or first.survey.id == cluster.nodes[cluster.head].id:
        return False
    return str(first.login) != head or first.survey.id in {node.id for node in cluster.nodes.values()}


def marked_hosts(config: Config) -> dict[Machine, str]:
    """Return hosts of the configuration that are nodes of a cluster of its name, with the id of their deployment."""
    everyone = config.model_copy(update={"nodes": len(config.hosts.addresses)})
    surveyed = survey_answers.survey(everyone) if config.hosts.addresses else []
    surveys = {
        _machine(host): host.survey for host in surveyed if host.survey and host.survey.mark_cluster == config.name
    }
    return {m.model_copy(update=_named(survey.mark_node)): survey.mark_id for m, survey in surveys.items()}


def _named(name: str) -> dict[str, str]:
    return {"name": name, "role": "head" if name.endswith("-head") else "worker"}


def _machine(host: SurveyedHost) -> Machine:
    described: dict[str, Any] = {"login": host.login, "private_address": host.address, **_named(host.name)}
    if host.survey and host.resolved:
        described |= {"id": host.survey.id, "cpus": host.survey.cpus, "gpus": host.survey.gpus}
        described |= {"address": host.resolved.hostname, "port": host.resolved.port}
    return Machine(**described)


def _node(host: SurveyedHost, problems: Sequence[PreflightError], previous: HostSet | None) -> Machine:
    """Return a host as node. A host with a problem keeps its former description: it may have files of the cluster."""
    problem = "; ".join(found.message for found in problems)
    if not problem:
        return _machine(host)
    old = {machine.login: machine for machine in previous.machines} if previous else {}
    return old.get(host.login, Machine(login=host.login, **_named(host.name))).model_copy(
        update={"problem": problem, **_named(host.name)}
    )


def _leaving(previous: HostSet, used: list[Machine], deployment: str) -> list[Machine]:
    """Return former nodes that are not nodes any more and have, or may have, something of this deployment."""
    staying = {value for machine in used for value in (machine.id, machine.login, (machine.address, machine.port))}
    former = [m.model_copy(update={"name": f"{m.name}-{m.id[:4]}", "problem": ""}) for m in previous.machines if m.id]
    former += adoption.marked_machines(previous.leaving, deployment)
    return [m for m in former if staying.isdisjoint((m.id, m.login, (m.address, m.port)))]
