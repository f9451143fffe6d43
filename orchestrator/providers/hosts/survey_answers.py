"""Survey of the hosts, taken before anything is changed on them."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints, field_validator

from orchestrator.cluster import node_names
from orchestrator.config import Config
from orchestrator.errors import PreflightError
from orchestrator.providers.hosts import login
from orchestrator.providers.hosts.login import Login, Resolved
from orchestrator.schema import Address
from orchestrator.ssh import Unreachable

ACCOUNT = "orchestrator"
FREE_IDS = range(700, 800)  # numbers of system accounts that no distribution assigns
_LINE = re.compile(r"^survey (\w+) ?(.*)$", re.MULTILINE)
# Name of a node, without what Ansible evaluates or expands in a host's name: templates, ranges.
NodeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{0,64}$")]


class HostSurvey(BaseModel):
    """Output of survey.sh. ``account`` is the entry of ACCOUNT in /etc/passwd; ``mark_*`` is from a deploy's mark.

    ``real_home`` and ``real_shared`` are the real paths of ACCOUNT's home directory and of /shared, without links.
    ``addresses`` has the first IPv4 address of each interface.
    ``gpu`` is the model of the host's GPUs, ``sudo`` is "yes" or the reason why sudo does not work, ``shared`` is the
    number of entries in /shared (None if it does not exist), ``shared_kept`` is "yes" if a teardown kept files in it;
    ``shared_cluster`` and ``shared_id`` are the cluster and the deployment that use it, if it is mounted;
    ``python`` is "none" without /usr/bin/python3; ``docker_snap`` is "yes" if Docker is installed as a snap.
    ``image_room`` is the free space in KiB for the trainer's image, None if it has one. ``containers`` is the number of
    those that end when a deploy restarts Docker. ``firewall`` is the name of the program that sets up the firewall.
    """

    system: str
    architecture: str
    id: str
    boot: str
    cpus: int
    gpus: int
    gpu: str = ""
    connection: list[Address]
    addresses: list[Address]
    ids: set[int]
    sudo: str
    account: list[str] = []
    real_home: str = ""
    account_sudo: str = ""
    mark_cluster: str = ""
    mark_id: str = ""
    mark_node: NodeName = ""
    mark_by: str = ""
    mark_account: str = ""
    shared: int | None = None
    real_shared: str = ""
    shared_kept: str = ""
    shared_cluster: str = ""
    shared_id: str = ""
    python: str = ""
    trainer: str = ""
    docker_snap: str = ""
    image_room: int | None = None
    containers: int = 0
    firewall: str = ""

    @field_validator("connection", "addresses", "ids", mode="before")
    @classmethod
    def _words(cls, text: Any) -> Any:
        return text.split() if isinstance(text, str) else text

    @field_validator("account", mode="before")
    @classmethod
    def _entry(cls, text: Any) -> Any:
        return text.split(":") if isinstance(text, str) else text

    @property
    def reached_at(self) -> str:
        """Return the machine's own address to which the login connected."""
        return self.connection[2] if len(self.connection) == 4 else ""

    @property
    def listens_on(self) -> int | None:
        """Return the port of the machine's sshd, as seen on the machine."""
        words = self.connection
        return int(words[3]) if len(words) == 4 and words[3].isdecimal() else None


@dataclass(frozen=True)
class SurveyedHost:
    """Host of the configuration with its survey. Without ``survey`` there is a ``reason``."""

    name: str
    login: Login
    private_address: str | None
    resolved: Resolved | None = None
    survey: HostSurvey | None = None
    reason: str = ""

    @property
    def address(self) -> str:
        """Return the private address: the configured one, else the one to which the login connected."""
        return self.private_address or (self.survey.reached_at if self.survey else "")


_last: dict[str, list[SurveyedHost]] = {}


def survey(config: Config) -> list[SurveyedHost]:
    """Ask all configured hosts in parallel."""
    names = node_names(config.name, config.nodes)
    chosen = dict(zip(names, config.hosts.addresses, strict=False))
    logins = {name: login.of(config, host) for name, host in chosen.items()}
    ways, lost = login.every(logins, lambda name: login.resolve(logins[name]))
    surveys, silent = login.every({name: logins[name] for name in ways}, lambda name: survey_host(logins[name]))
    reasons = lost | silent
    _last.clear()
    _last[_key(config)] = [
        SurveyedHost(name, logins[name], host.private_address, ways.get(name), surveys.get(name), reasons.get(name, ""))
        for name, host in chosen.items()
    ]
    return _last[_key(config)]


def last_survey(config: Config) -> list[SurveyedHost]:
    """Return the last result of :func:`survey` for the same hosts, so that a deploy asks them only once."""
    return _last.get(_key(config)) or survey(config)


def _key(config: Config) -> str:
    return f"{config.name} {config.nodes} {config.hosts.model_dump_json()}"


def survey_host(way: Login) -> HostSurvey:
    """Survey a host.

    Raises:
        Unreachable: The login failed, or its shell did not print the survey.
    """
    answer = dict(_LINE.findall(login.run(way, "survey.sh")))
    try:
        return HostSurvey.model_validate(answer)
    except ValueError as error:
        raise Unreachable(f"its shell does not print the survey: {' '.join(str(answer).split())}") from error


def account_id(surveyed: list[SurveyedHost]) -> tuple[int, int]:
    """Return user and group number of ACCOUNT: those it has on a host, else numbers that are free on all hosts.

    A shared directory identifies accounts by number alone.

    Raises:
        PreflightError: Hosts have different numbers, or the numbers belong to another account on a host.
    """
    surveys = {host.name: host.survey for host in surveyed if host.survey}
    has = {name: (int(s.account[2]), int(s.account[3])) for name, s in surveys.items() if s.account}
    if len(set(has.values())) > 1:
        listed = ", ".join(f"{uid}:{gid} on {name}" for name, (uid, gid) in has.items())
        raise PreflightError(f"hosts.addresses: account {ACCOUNT} has different numbers: {listed}", "make them equal")
    taken = set[int]().union(*(s.ids for name, s in surveys.items() if name not in has))
    if not has:
        free = next(number for number in FREE_IDS if number not in taken)
        return free, free
    uid, gid = next(iter(has.values()))
    if taken & {uid, gid}:
        hosts = ", ".join(name for name, s in surveys.items() if name not in has and s.ids & {uid, gid})
        raise PreflightError(
            f"hosts.addresses: {uid}:{gid} is account {ACCOUNT} on {next(iter(has))} and another on {hosts}",
            "give the other account another number",
        )
    return uid, gid
