"""Requirements that hosts must meet for a deploy. Each finding has a remedy."""

import shlex
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address

from orchestrator.config import Config
from orchestrator.errors import PreflightError, command
from orchestrator.providers.hosts.survey import ACCOUNT, Facts, SurveyedHost

SYSTEMS = ("debian 12", "debian 13", "ubuntu 22.04", "ubuntu 24.04")
ARCHITECTURE = "x86_64"


def problems(one: SurveyedHost, config: Config, ours: str) -> list[PreflightError]:
    """Return the problems of one host.

    Args:
        one: The host as it was seen.
        config: Configuration of the cluster.
        ours: Id of this deployment, or "" before the first deploy.

    Returns:
        One error for each problem.
    """
    if one.facts is None:
        return [_unreachable(one)]
    findings = [
        *_connection(one),
        *_machine(one, one.facts, config),
        *_account(one, one.facts),
        *_mark(one, one.facts, ours),
        *_address(one, one.facts),
        *_content(one, one.facts, config, ours),
    ]
    return [PreflightError(f"hosts.addresses: {one.login}: {problem}", remedy) for problem, remedy in findings]


Findings = Iterator[tuple[str, str]]


def _unreachable(one: SurveyedHost) -> PreflightError:
    by_hand = f"`{shlex.join(['ssh', *one.login.words, 'true'])}`"
    remedy = f"{by_hand} must work without a prompt: check its address, your key (hosts.identity) and its firewall"
    if "Host key verification failed" in one.reason:
        remedy = f"{by_hand}, typed in a terminal, shows its host key and asks you to confirm it"
    return PreflightError(f"hosts.addresses: {one.login} cannot be reached: {one.reason}", remedy)


def _connection(one: SurveyedHost) -> Findings:
    if one.resolved and one.resolved.proxy:
        yield (
            f"your ssh reaches it through `{one.resolved.proxy}`",
            "set hosts.jump: nodes are reached without your ssh",
        )
    port = one.facts and one.facts.listens_on
    if one.resolved and port and port != one.resolved.port:
        yield (
            f"port {one.resolved.port} leads to its port {port}, but the other hosts can only use the latter",
            "set hosts.jump to a machine that reaches every host at its own port",
        )


def _machine(one: SurveyedHost, facts: Facts, config: Config) -> Findings:
    if facts.sudo != "yes":
        user = one.resolved.user if one.resolved else "USER"
        grant = f"echo '{user} ALL=(ALL) NOPASSWD: ALL' | sudo tee /etc/sudoers.d/{user}"
        yield f"sudo does not work without a password: {facts.sudo}", f"there: `{grant}`"
    if facts.architecture != ARCHITECTURE:
        yield f"its architecture is {facts.architecture}", f"{ARCHITECTURE} is needed: leave it out"
    prepared = config.hosts.storage == "mounted" and config.hosts.trainer == "installed"
    if facts.system not in SYSTEMS and not prepared:
        yield (
            f"its system is {facts.system.strip() or 'unknown'}",
            f"one of {', '.join(SYSTEMS)} is needed, unless hosts.storage is mounted and hosts.trainer installed",
        )


def _account(one: SurveyedHost, facts: Facts) -> Findings:
    if not facts.account:
        return
    shell = facts.account[-1]
    if facts.sudo == "yes" and facts.account_sudo != "yes":
        yield (
            f"its account {ACCOUNT} cannot sudo without a password, and nodes are configured as {ACCOUNT}",
            f"there: `echo '{ACCOUNT} ALL=(ALL) NOPASSWD: ALL' | sudo tee /etc/sudoers.d/{ACCOUNT}`, or rename it",
        )
    if shell.endswith(("nologin", "false")):
        yield f"its account {ACCOUNT} has the shell {shell}", f"there: `sudo usermod --shell /bin/bash {ACCOUNT}`"
    if facts.mark_account == "made" and one.resolved and one.resolved.user == ACCOUNT:
        yield f"account {ACCOUNT} is removed at teardown", "log in with an account of your own: USER@ADDRESS"


def _mark(one: SurveyedHost, facts: Facts, ours: str) -> Findings:
    if facts.mark_id and facts.mark_id != ours:
        name = facts.mark_cluster
        yield (
            f"it is a node of cluster {name!r} (deployment {facts.mark_id}, by {facts.mark_by})",
            f"{command('teardown', name)} on the machine that deployed it; if its state is lost, "
            f"{command('teardown --orphans', name)}",
        )


def _address(one: SurveyedHost, facts: Facts) -> Findings:
    remedy = "set `private_address` of the host to the IPv4 address by which the other hosts reach it"
    try:
        IPv4Address(one.address)
    except ValueError:
        yield f"its private address {one.address!r} is no IPv4 address", remedy
        return
    if one.address not in facts.addresses:
        others = ", ".join(address for address in facts.addresses if ":" not in address) or "none"
        yield f"its private address {one.address} is on none of its interfaces (there are {others})", remedy


def _content(one: SurveyedHost, facts: Facts, config: Config, ours: str) -> Findings:
    adopted = bool(ours) and facts.mark_id == ours
    if config.hosts.storage == "mounted" and facts.shared is None:
        yield "it has no /shared", "mount the same directory there on every host, or leave hosts.storage out"
    if config.hosts.storage == "nfs" and facts.shared and not adopted:
        yield (
            "its /shared is not empty",
            "move its contents away; or set hosts.storage: mounted if every host has the same /shared",
        )
    if config.hosts.trainer == "installed" and not facts.trainer:
        yield "it has no /opt/orchestrator/bin/python", "leave hosts.trainer out: then it is installed"


def conflicts(seen: Sequence[SurveyedHost]) -> list[PreflightError]:
    """Return conflicts between hosts: the same machine twice, or the same private address twice."""
    machines: dict[tuple[str, str], SurveyedHost] = {}
    addresses: dict[str, SurveyedHost] = {}
    errors = []
    for one in seen:
        if one.facts is None:
            continue
        same = machines.setdefault((one.facts.id, one.facts.boot), one)
        if same is not one:
            message = f"hosts.addresses: {same.login} and {one.login} are the same machine"
            errors.append(PreflightError(message, "leave one of them out"))
        elif (other := addresses.setdefault(one.address, one)) is not one:
            message = f"hosts.addresses: {other.login} and {one.login} have the same private address {one.address}"
            errors.append(
                PreflightError(
                    message, "set `private_address` of both to the addresses by which the other hosts reach them"
                )
            )
    return errors
