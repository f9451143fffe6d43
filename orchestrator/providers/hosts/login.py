"""Login to a host by the user's own OpenSSH client and configuration, before the deploy has an account on it."""

import base64
import shlex
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints

from orchestrator import process, ssh
from orchestrator.config import Config, Host, expanded
from orchestrator.errors import CommandFailed
from orchestrator.process import background
from orchestrator.ssh import Unreachable, openssh

SECONDS = 60.0
# No questions, and none of the user's settings that are for terminals.
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
Word = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]  # arguments of programs cannot hold NUL


class Login(BaseModel):
    """Login of the user on a host. Keys that are None are left to the user's ssh configuration."""

    model_config = ConfigDict(frozen=True)

    address: Word
    user: Word | None = None
    port: int | None = None
    identity: Word | None = None
    jump: Word | None = None

    def __str__(self) -> str:
        """Return the login as cluster.yaml writes it."""
        return f"{self.user}@" * bool(self.user) + self.address + f":{self.port}" * bool(self.port)

    @property
    def words(self) -> list[str]:
        """Return the arguments of `ssh`."""
        key = openssh.identity(Path(self.identity)) if self.identity else []
        key += ["-o", "IdentitiesOnly=yes"] if self.identity else []  # sshd hangs up after a few wrong keys
        flags = {"-J": self.jump, "-p": self.port}
        options = [word for option, value in flags.items() if value for word in (option, str(value))]
        return [*key, *options, f"{self.user}@{self.address}" if self.user else self.address]


class Resolved(BaseModel):
    """Login as the user's ssh resolves it. ``proxy`` is a jump host or command from the user's own settings."""

    hostname: str
    user: str
    port: int
    proxy: str | None = None


def of(config: Config, host: Host) -> Login:
    """Return the login of ``host``. Port 22 may be just the default, so it is left to the user's ssh configuration."""
    configured = config.hosts.identity
    identity = configured and str(expanded("hosts.identity", configured).absolute())
    port = host.port if host.port != 22 else None
    jump = config.hosts.jump
    if jump and jump.rpartition("@")[2].partition(":")[0] == host.address:
        jump = None  # this host is the jump host, and ssh refuses to jump through the target
    return Login(address=host.address, user=host.user, port=port, identity=identity, jump=jump)


def resolve(login: Login) -> Resolved:
    """Resolve a login with the user's ssh, without connecting.

    Raises:
        Unreachable: ssh refuses the login.
    """
    answer = _ask(["ssh", "-G", *login.words], SECONDS)
    settings = dict(line.split(" ", 1) for line in answer.splitlines() if " " in line)
    proxies = [settings[key] for key in ("proxyjump", "proxycommand") if settings.get(key, "none") != "none"]
    return Resolved(**settings, proxy=None if login.jump else next(iter(proxies), None))


def run(login: Login, script: str, root: bool = False, seconds: float = SECONDS, **variables: object) -> str:
    """Run a script on the host, sent as one base64 word that is safe in any login shell.

    Args:
        login: The login.
        script: File in the directory of this module.
        root: Whether to run it by sudo.
        seconds: Time limit.
        **variables: Variables of the script.

    Returns:
        The output of the script.

    Raises:
        Unreachable: The login or the script failed.
    """
    assignments = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items())
    text = f"{assignments}{{\n{(Path(__file__).parent / script).read_text()}\n}} < /dev/null\n"
    shell = "sudo -n sh -s" if root else "sh -s"
    return _ask(_command(login, f"echo {_word(text)} | base64 -d | {shell}"), seconds)


def start(login: Login, program: str, *words: str) -> AbstractContextManager[background.Background]:
    """Run a Python program on the host while the context lasts, also sent as one base64 word.

    Args:
        login: The login.
        program: File in the directory of this module; its standard input ends with the context.
        *words: Arguments of the program.

    Returns:
        The context with the running program.
    """
    word = _word((Path(__file__).parent / program).read_text())
    python = f"/usr/bin/python3 -c \"import base64; exec(base64.b64decode('{word}'))\""
    return background.run("ssh", _command(login, f"{python} {shlex.join(words)}"))


def _word(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _command(login: Login, remote: str) -> list[str]:
    options = [part for key, value in OPTIONS.items() for part in ("-o", f"{key}={value}")]
    return ["ssh", *options, *login.words, remote]


def every(logins: Mapping[str, Login], action: Callable[[str], Value]) -> tuple[dict[str, Value], dict[str, str]]:
    """Run ``action(name)`` for all logins in parallel. Return results and reasons of failures, both by name."""
    return ssh.in_parallel(list(logins), action, ssh.AT_ONCE[any(login.jump for login in logins.values())])


def _ask(argv: list[str], seconds: float) -> str:
    try:
        return process.run("ssh", argv, seconds=seconds)
    except CommandFailed as failed:
        raise Unreachable(_reason(failed)) from failed


def _reason(failed: CommandFailed) -> str:
    """Return the first and the last line of the output: ssh prints the cause first and the consequence last."""
    lines = [line.strip() for line in failed.tail if line.strip(" @") and not line.startswith("survey ")]
    return "; ".join(dict.fromkeys([*lines[:1], *lines[-1:]])) or failed.message.splitlines()[0]
