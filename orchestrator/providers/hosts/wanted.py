"""Which machines are to be nodes, told from how the hosts were seen and from what a deploy knew before."""

from typing import Any

from orchestrator.config import Config
from orchestrator.providers.hosts import adoption, findings
from orchestrator.providers.hosts import seen as sight
from orchestrator.providers.hosts.adoption import Given, Machine
from orchestrator.providers.hosts.seen import Seen
from orchestrator.state import Record


def before(record: Record) -> Given | None:
    """What the last deploy knew."""
    found = record.variables.get("hosts")
    return Given.model_validate(found) if found else None


def by(config: Config, record: Record) -> Given:
    """What this deploy knows. Raises PreflightError where hosts cannot agree on our account's number."""
    seen, known = sight.again(config), before(record)
    used = [_node(one, config, record.id, known) for one in seen]
    uid, gid = sight.account_id(seen)
    return Given(
        machines=used,
        leaving=_leaving(known, used, record.id) if known else [],
        storage=config.hosts.storage,
        trainer=config.hosts.trainer,
        uid=uid,
        gid=gid,
    )


def marked(config: Config) -> dict[Machine, str]:
    """Hosts of the config that are nodes of a cluster of its name, and of which deployment."""
    everyone = config.model_copy(update={"nodes": len(config.hosts.addresses)})
    seen = sight.look(everyone) if config.hosts.addresses else []
    found = {_machine(one): one.facts for one in seen if one.facts and one.facts.mark_cluster == config.name}
    return {m.model_copy(update=_named(facts.mark_node)): facts.mark_id for m, facts in found.items()}


def _named(name: str) -> dict[str, str]:
    return {"name": name, "role": "head" if name.endswith("-head") else "worker"}


def _machine(one: Seen) -> Machine:
    described: dict[str, Any] = {"login": one.login, "private_address": one.address, **_named(one.name)}
    if one.facts and one.resolved:
        described |= {"id": one.facts.id, "cpus": one.facts.cpus, "gpus": one.facts.gpus}
        described |= {"address": one.resolved.hostname, "port": one.resolved.port}
    return Machine(**described)


def _node(one: Seen, config: Config, ours: str, known: Given | None) -> Machine:
    """A host that cannot be a node now is still known as what it was: it may have something of ours."""
    problem = "; ".join(finding.message for finding in findings.of(one, config, ours))
    if not problem:
        return _machine(one)
    old = {machine.login: machine for machine in known.machines} if known else {}
    return old.get(one.login, Machine(login=one.login, **_named(one.name))).model_copy(
        update={"problem": problem, **_named(one.name)}
    )


def _leaving(known: Given, used: list[Machine], ours: str) -> list[Machine]:
    """Former nodes that are none now, as long as they have, or may have, something of ours."""
    kept = {value for machine in used for value in (machine.id, machine.login, (machine.address, machine.port))}
    former = [m.model_copy(update={"name": f"{m.name}-{m.id[:4]}", "problem": ""}) for m in known.machines if m.id]
    former += adoption.held(known.leaving, ours)
    return [m for m in former if kept.isdisjoint((m.id, m.login, (m.address, m.port)))]
