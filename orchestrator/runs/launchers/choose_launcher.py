"""Choose the launcher of a script."""

from orchestrator import progress
from orchestrator.config import Config, Launch
from orchestrator.errors import ConfigError, command
from orchestrator.runs import unsent_files
from orchestrator.runs.launchers import find_script_imports
from orchestrator.runs.launchers.find_script_imports import Needed
from orchestrator.runs.script import Source

# The package that a launcher is a part of, and the frameworks whose images have it.
PACKAGES = {"torchrun": ("torch", ("pytorch", "both")), "ray": ("ray", ("both",))}


def choose(options: Launch, source: Source) -> Launch:
    """Replace the launcher "auto" in ``options`` by the one that the script needs, and say which.

    Raises:
        ConfigError: The options do not fit the launcher, or lack the parameter servers that the script uses.
    """
    progress.note(unsent_files.note_on_imports(source))
    needed = find_script_imports.needed(source)
    if options.launcher == "auto":
        launcher, reason = _best(options, needed)
        options = options.model_copy(update={"launcher": launcher})
        progress.note(f"launcher: {launcher} ({reason}; --launcher names another)")
    if options.parameter_servers and options.launcher != "tensorflow":
        problem = f"launch.parameter_servers: {options.parameter_servers}: {options.launcher} has none"
        raise ConfigError([problem], "--launcher tensorflow starts parameter servers")
    if options.launcher == "tensorflow" and needed.parameter_servers and not options.parameter_servers:
        problem = "launch.parameter_servers: missing: the script uses ParameterServerStrategy"
        raise ConfigError([problem], "--parameter-servers 1 starts one in addition to the workers")
    return options


def require_package(launcher: str, nodes: Config) -> None:
    """Check that the image of the nodes has the package that ``launcher`` is a part of.

    Args:
        launcher: Name of the launcher.
        nodes: Configuration with which the nodes were deployed. An image of the user's own may have any package.

    Raises:
        ConfigError: The image of this framework has no such package.
    """
    package, frameworks = PACKAGES.get(launcher, ("", (nodes.framework,)))
    if nodes.framework not in frameworks and nodes.image is None and nodes.hosts.trainer == "container":
        raise ConfigError(
            [f"launch.launcher: {launcher}: nodes of cluster {nodes.name!r} have {nodes.framework}, not {package}"],
            f"{command(f'deploy --framework {frameworks[0]}', nodes.name)} changes them;"
            f" or list {package} in requirements.txt in the script's directory",
        )


def _best(options: Launch, needed: Needed) -> tuple[str, str]:
    """Return a launcher and the reason for it."""
    if options.parameter_servers:
        return "tensorflow", "for parameter servers"
    if needed.module:
        return needed.launcher, f"the script imports {needed.module}"
    if options.controller != "auto":
        return "horovod", f"launch.controller is {options.controller}"
    if needed.launcher == "horovod":
        return needed.launcher, "the program is not Python's"
    return needed.launcher, "the script imports nothing that needs another"
