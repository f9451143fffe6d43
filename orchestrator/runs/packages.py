"""Install the Python packages that a script asks for, once, into an overlay on the shared storage.

An overlay is a directory that is named after a digest of what was asked for and of the image. The program
``orchestrator.trainer.packages.install`` makes it on the head; this module sends what the program needs.
"""

import contextlib
import secrets

from orchestrator import progress, ssh
from orchestrator.cluster import PYTHON, Cluster
from orchestrator.config import Launch
from orchestrator.docker import context
from orchestrator.errors import CommandFailed, ConfigError, ContractError, PreflightError
from orchestrator.runs import control, package_overlays
from orchestrator.runs.package_overlays import DIRECTORY
from orchestrator.runs.requirements import WHEELS, Requirements
from orchestrator.schema.packages import (
    Overlay,
    PackageConflict,
    PackagesMessage,
    PackagesProblem,
    PackagesRequest,
)
from orchestrator.ssh import Session, Unreachable
from orchestrator.state import StateDir, cluster_lock

PROGRAM = "orchestrator.trainer.packages.install"
WITHOUT = "`run --no-packages` uses the image's packages alone"


def provide(state_dir: StateDir, cluster: Cluster, digest: str, options: Launch, requirements: Requirements) -> str:
    """Install what a script asks for, unless it is installed already.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        options: Launch options of the run.
        requirements: What the script asks for.

    Returns:
        The directory of the overlay on every node.

    Raises:
        ConfigError: A package conflicts with the image, or is not to be had.
        PreflightError: The head cannot reach the package index.
        CommandFailed: pip failed.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    name = requirements.digest(digest)
    with control.head_session(state_dir, cluster) as head:
        if package_overlays.is_complete(head, f"{DIRECTORY}/{name}"):
            progress.note(f"packages of {requirements.source} are installed: {name}")
            return f"{DIRECTORY}/{name}"
    control.check_nodes(state_dir, cluster, digest, options)
    if requirements.variables:
        progress.note(f"{requirements.source}: pip gets your values of {', '.join(requirements.variables)}")
    title = f"Installing packages of {requirements.source}"
    with (
        cluster_lock.starting(state_dir),
        control.head_session(state_dir, cluster) as head,
        progress.step(title) as step,
    ):
        overlay = _sent_and_installed(head, (name, requirements.base(digest)), requirements, step)
    progress.note(f"installed in {DIRECTORY}/{name}: {_listing(overlay)}")
    return f"{DIRECTORY}/{name}"


def _listing(overlay: Overlay) -> str:
    return ", ".join(f"{name} {version}" for name, version in overlay.packages.items()) or "nothing: the image has all"


def _sent_and_installed(
    head: Session, hashes: tuple[str, str], requirements: Requirements, step: progress.Step
) -> Overlay:
    """Send local files to a temporary directory on the head, and install the packages."""
    directory = f"{DIRECTORY}/.incoming-{secrets.token_hex(8)}"
    try:
        if requirements.files:
            step.detail(f"sending {len(requirements.files)} files")
            head.must("free space for packages", ["mkdir", "-p", directory])
            head.send(requirements.files, directory)
        return _install(head, _request(hashes, requirements, directory), step)
    finally:
        with contextlib.suppress(Unreachable):
            head.run(["rm", "-rf", directory])


def _request(hashes: tuple[str, str], requirements: Requirements, directory: str) -> PackagesRequest:
    lines, constraints = requirements.sent_to(directory)
    return PackagesRequest(
        hash=hashes[0],
        base=hashes[1],
        source=requirements.source,
        asked=requirements.requested,
        requirements=lines,
        constraints=constraints,
        pyproject=requirements.pyproject,
        wheels=f"{directory}/{WHEELS}" if requirements.wheels else None,
        environment={} if requirements.wheels else context.host_settings(),
        certificates=context.ca_bundle().read_text(),
    )


def _install(head: Session, request: PackagesRequest, step: progress.Step) -> Overlay:
    """Let the head install ``request``. Raises ConfigError, PreflightError or CommandFailed if it cannot."""
    argv = [PYTHON, "-m", PROGRAM, DIRECTORY]
    with contextlib.closing(head.converse("install packages", argv, request.model_dump_json() + "\n")) as lines:
        for line in lines:
            message = ssh.parsed(PackagesMessage, line, head, "answer of the installation")
            if message.problem:
                raise _error(message.problem, request)
            if message.overlay:
                return message.overlay
            step.detail(message.say or "")
    raise ContractError(f"{head.node} does not report the packages", "run it again")


def _error(problem: PackagesProblem, request: PackagesRequest) -> Exception:
    details = "".join(f"\n    {line}" for line in problem.lines)
    if problem.kind == "conflict" and not problem.conflicts:
        return ContractError(f"the head names no package that is in conflict with the image{details}", "run it again")
    if problem.kind == "conflict":
        problems = [f"{request.source}: {_conflict(conflict)}" for conflict in problem.conflicts]
        return ConfigError([*problems[:-1], problems[-1] + details], f"change these lines; {WITHOUT}")
    if problem.kind == "offline":
        hint = "on a cluster without internet, `run --wheels DIR` sends packages from this machine"
        return PreflightError(f"the head cannot reach the package index:{details}", hint)
    if problem.kind == "missing":
        where = "--wheels has no wheel that is" if request.wheels else "the package index has nothing that is"
        missing = f"{request.source}: {problem.package}: {where} right for the image's Python:{details}"
        return ConfigError([missing], WITHOUT)
    failed = CommandFailed("install packages", ["pip", "install"], f"asked for by {request.source}", problem.lines)
    failed.hint = WITHOUT
    return failed


def _conflict(conflict: PackageConflict) -> str:
    requirement = f"{conflict.by} needs {conflict.wanted}" if conflict.by else conflict.wanted
    reason = "" if conflict.needed_by == conflict.name else f", which {conflict.needed_by} needs"
    return f"{requirement}: the image has {conflict.name} {conflict.installed}{reason}"
