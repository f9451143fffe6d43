"""Requirements that hosts must meet for a deploy. Each finding has a remedy."""

import re
import shlex
from collections.abc import Sequence
from ipaddress import IPv4Address

from orchestrator.config import Config
from orchestrator.errors import PreflightError, command
from orchestrator.providers.hosts import container_checks
from orchestrator.providers.hosts.container_checks import Findings
from orchestrator.providers.hosts.survey_answers import ACCOUNT, HostSurvey, SurveyedHost

SYSTEMS = ("debian 12", "debian 13", "ubuntu 22.04", "ubuntu 24.04")
ARCHITECTURE = "x86_64"


def problems(surveyed: Sequence[SurveyedHost], config: Config, deployment: str) -> list[list[PreflightError]]:
    """Return the problems of each host.

    Args:
        surveyed: The hosts as they were seen.
        config: Configuration of the cluster.
        deployment: Id of this deployment, or "" before the first deploy.

    Returns:
        For each host, one error for each of its problems.
    """
    with_gpus = config.gpu.driver != "none" and any(host.survey and host.survey.gpus for host in surveyed)
    return [_problems(host, config, deployment, with_gpus) for host in surveyed]


def _problems(host: SurveyedHost, config: Config, deployment: str, with_gpus: bool) -> list[PreflightError]:
    """Return the problems of one host. All hosts have the trainer's image, which is larger if one has GPUs."""
    if host.survey is None:
        return [_unreachable(host)]
    findings = [
        *_connection(host),
        *_machine(host, host.survey, config),
        *_account(host, host.survey),
        *(container_checks.problems(host.survey, with_gpus) if config.hosts.trainer == "container" else ()),
        *_mark(host, host.survey, deployment),
        *_address(host, host.survey),
        *_content(host, host.survey, config, deployment),
    ]
    return [PreflightError(f"hosts.addresses: {host.login}: {problem}", remedy) for problem, remedy in findings]


def _unreachable(host: SurveyedHost) -> PreflightError:
    by_hand = f"`{shlex.join(['ssh', *host.login.words, 'true'])}`"
    remedy = f"{by_hand} must work without a prompt: check its address, your key (hosts.identity) and its firewall"
    if "Host key verification failed" in host.reason:
        remedy = f"{by_hand}, typed in a terminal, shows its host key and asks you to confirm it"
    return PreflightError(f"hosts.addresses: {host.login} cannot be reached: {host.reason}", remedy)


def _connection(host: SurveyedHost) -> Findings:
    if host.resolved and host.resolved.proxy:
        yield (
            f"your ssh reaches it through `{host.resolved.proxy}`",
            "set hosts.jump: nodes are reached without your ssh",
        )
    port = host.survey and host.survey.listens_on
    if host.resolved and port and port != host.resolved.port:
        yield (
            f"port {host.resolved.port} leads to its port {port}, but the other hosts can only use the latter",
            "set hosts.jump to a machine that reaches every host at its own port",
        )


def _machine(host: SurveyedHost, survey: HostSurvey, config: Config) -> Findings:
    if survey.sudo != "yes":
        user = host.resolved.user if host.resolved else "USER"
        file = re.sub(r"[^\w-]", "_", user)  # sudo ignores file names with a dot
        grant = f"echo '{user} ALL=(ALL) NOPASSWD: ALL' | sudo tee -a /etc/sudoers.d/{file}"
        yield f"sudo does not work without a password: {survey.sudo}", f"there: `{grant}`"
    if survey.architecture != ARCHITECTURE:
        yield f"its architecture is {survey.architecture}", f"{ARCHITECTURE} is needed: leave it out"
    if survey.python:
        yield "it has no /usr/bin/python3, which Ansible needs", "there: `sudo apt-get install --yes python3`"
    prepared = config.hosts.storage == "mounted" and config.hosts.trainer == "installed"
    if survey.system not in SYSTEMS and not prepared:
        yield (
            f"its system is {survey.system.strip() or 'unknown'}",
            f"one of {', '.join(SYSTEMS)} is needed, unless hosts.storage is mounted and hosts.trainer installed",
        )


def _account(host: SurveyedHost, survey: HostSurvey) -> Findings:
    if not survey.account:
        return
    shell = survey.account[-1]
    if survey.sudo == "yes" and survey.account_sudo != "yes":
        yield (
            f"its account {ACCOUNT} cannot sudo without a password, and nodes are configured as {ACCOUNT}",
            f"there: `echo '{ACCOUNT} ALL=(ALL) NOPASSWD: ALL' | sudo tee -a /etc/sudoers.d/{ACCOUNT}`, or rename it",
        )
    if shell.endswith(("nologin", "false")):
        yield f"its account {ACCOUNT} has the shell {shell}", f"there: `sudo usermod --shell /bin/bash {ACCOUNT}`"
    if survey.mark_account == "made" and host.resolved and host.resolved.user == ACCOUNT:
        yield f"account {ACCOUNT} is removed at teardown", "log in with an account of your own: USER@ADDRESS"


def _mark(host: SurveyedHost, survey: HostSurvey, deployment: str) -> Findings:
    if survey.mark_id and survey.mark_id != deployment:
        name = survey.mark_cluster
        yield (
            f"it is a node of cluster {name!r} (deployment {survey.mark_id}, by {survey.mark_by})",
            f"{command('teardown', name)} on the machine that deployed it; if its state is lost, "
            f"{command('teardown --orphans', name)}",
        )


def _address(host: SurveyedHost, survey: HostSurvey) -> Findings:
    remedy = "set `private_address` of the host to the IPv4 address by which the other hosts reach it"
    try:
        IPv4Address(host.address)
    except ValueError:
        yield f"its private address {host.address!r} is no IPv4 address", remedy
        return
    if host.address not in survey.addresses:
        existing = ", ".join(survey.addresses) or "none"
        yield (
            f"its private address {host.address} is on none of its interfaces, or not the first there ({existing})",
            remedy,
        )


def _content(host: SurveyedHost, survey: HostSurvey, config: Config, deployment: str) -> Findings:
    adopted = bool(deployment) and survey.mark_id == deployment
    kept = survey.shared_kept == "yes" and host.name.endswith("-head")
    if config.hosts.storage == "mounted" and survey.shared is None:
        yield "it has no /shared", "mount the same directory there on every host, or leave hosts.storage out"
    if config.hosts.storage == "nfs" and survey.shared and not (adopted or kept):
        yield (
            "its /shared is not empty",
            "move its contents away; or set hosts.storage: mounted if every host has the same /shared",
        )
    # If the host is a node of that deployment, _mark reports it.
    if config.hosts.storage == "mounted" and survey.shared_id not in ("", deployment, survey.mark_id):
        name = survey.shared_cluster
        yield (
            f"its /shared is in use by cluster {name!r} (deployment {survey.shared_id}), whose teardown empties it",
            f"mount another directory there, or {command('teardown', name)} first; if that cluster is gone, "
            "there: `sudo rm /shared/.orchestrator-deployment`",
        )
    if config.hosts.trainer == "installed" and not survey.trainer:
        yield "it has no /opt/orchestrator/bin/python", "leave hosts.trainer out: then it is installed"


def conflicts(surveyed: Sequence[SurveyedHost]) -> list[PreflightError]:
    """Return conflicts between hosts: the same machine twice, or the same private address twice."""
    machines: dict[tuple[str, str], SurveyedHost] = {}
    addresses: dict[str, SurveyedHost] = {}
    errors = []
    for host in surveyed:
        if host.survey is None:
            continue
        same = machines.setdefault((host.survey.id, host.survey.boot), host)
        if same is not host:
            message = f"hosts.addresses: {same.login} and {host.login} are the same machine"
            errors.append(PreflightError(message, "leave one of them out"))
        elif (first := addresses.setdefault(host.address, host)) is not host:
            message = f"hosts.addresses: {first.login} and {host.login} have the same private address {host.address}"
            errors.append(
                PreflightError(
                    message, "set `private_address` of both to the addresses by which the other hosts reach them"
                )
            )
    return errors
