"""First contact with a host: by the user's own OpenSSH client, with whatever is configured for it."""

import base64
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from orchestrator import process, ssh
from orchestrator.config import Config, Host, expanded
from orchestrator.errors import CommandFailed
from orchestrator.ssh import Unreachable

SECONDS = 60.0
AT_ONCE = {False: 32, True: 8}  # through a jump host: its sshd begins to refuse at ten logins that are under way
# Nothing that asks, and of the user's settings nothing that is for terminals.
OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": "10",
    "ServerAliveInterval": "10",
    "ServerAliveCountMax": "3",
    "LogLevel": "ERROR",
    "ControlMaster": "no",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "RequestTTY": "no",
    "RemoteCommand": "none",
}
Value = TypeVar("Value")


class Login(BaseModel):
    """How the user gets into a host. What is None is left to the user's ssh."""

    model_config = ConfigDict(frozen=True)

    address: str
    user: str | None = None
    port: int | None = None
    identity: str | None = None
    jump: str | None = None

    def __str__(self) -> str:
        """As cluster.yaml has it."""
        return f"{self.user}@" * bool(self.user) + self.address + f":{self.port}" * bool(self.port)

    @property
    def words(self) -> list[str]:
        """What the user would type behind `ssh`."""
        given = {"-i": self.identity, "-J": self.jump, "-p": self.port}
        options = [word for option, value in given.items() if value for word in (option, str(value))]
        options += ["-o", "IdentitiesOnly=yes"] if self.identity else []  # a few wrong keys, and sshd hangs up
        return [*options, f"{self.user}@{self.address}" if self.user else self.address]


class Resolved(BaseModel):
    """What the user's ssh makes of a login; ``proxy`` is a way that its settings alone know of."""

    hostname: str
    user: str
    port: int
    proxy: str | None = None


def of(config: Config, host: Host) -> Login:
    """The login of ``host``. A port that is 22 may just be the default: the user's ssh may know better."""
    given = config.hosts.identity
    identity = given and str(expanded("hosts.identity", given).absolute())
    port = host.port if host.port != 22 else None
    jump = config.hosts.jump
    if jump and jump.rpartition("@")[2].partition(":")[0] == host.address:
        jump = None  # the others are behind this one, and ssh refuses to go in circles
    return Login(address=host.address, user=host.user, port=port, identity=identity, jump=jump)


def resolve(login: Login) -> Resolved:
    """Ask the user's ssh; no connection is made. Raises Unreachable."""
    said = _ask(["ssh", "-G", *login.words], SECONDS)
    settings = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    proxies = [settings[key] for key in ("proxyjump", "proxycommand") if settings.get(key, "none") != "none"]
    return Resolved(**settings, proxy=None if login.jump else next(iter(proxies), None))


def run(login: Login, script: str, root: bool = False, seconds: float = SECONDS, **given: object) -> str:
    """What ``script`` (a file beside this one) says there, told what is ``given``. Raises Unreachable.

    It goes as one word that any shell the user may have there leaves as it is.
    """
    variables = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in given.items())
    text = f"{variables}{{\n{(Path(__file__).parent / script).read_text()}\n}} < /dev/null\n"
    word = base64.b64encode(text.encode()).decode()
    options = [part for key, value in OPTIONS.items() for part in ("-o", f"{key}={value}")]
    shell = "sudo -n sh -s" if root else "sh -s"
    return _ask(["ssh", *options, *login.words, f"echo {word} | base64 -d | {shell}"], seconds)


def every(logins: Mapping[str, Login], action: Callable[[str], Value]) -> tuple[dict[str, Value], dict[str, str]]:
    """``action(name)`` for all at once: what it gave by name, and why it failed by name."""
    return ssh.at_once(list(logins), action, AT_ONCE[any(login.jump for login in logins.values())])


def _ask(argv: list[str], seconds: float) -> str:
    try:
        return process.run("ssh", argv, seconds=seconds)
    except CommandFailed as failed:
        raise Unreachable(_reason(failed)) from failed


def _reason(failed: CommandFailed) -> str:
    """The first thing that was said and the last: ssh tells what happened, and what came of it."""
    said = [line.strip() for line in failed.tail if line.strip(" @") and not line.startswith("fact ")]
    return "; ".join(dict.fromkeys([*said[:1], *said[-1:]])) or failed.message.splitlines()[0]
