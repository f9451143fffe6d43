"""Imports have one direction; read from the source of every module, including imports within functions."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from orchestrator import packaged_files
from orchestrator.docker import context

# From the top down: a module imports from lower lines, and from its own package.
LAYERS = [
    {"cli"},
    {"studies"},
    {"lifecycle", "plot", "reproduction"},
    {"monitoring"},
    {"runs"},
    {"providers"},
    {"ansible", "node_health", "services"},
    {"ssh", "terraform"},
    {"state"},
    {"docker", "recipes", "gpu_compatibility", "prediction"},
    {"config", "cluster", "process", "bottleneck", "cpu_usage"},
    {"schema", "progress"},
    {"errors", "packaged_files", "launch_layout", "grace_periods", "untrusted_files"},
    {"exit_codes", "lazy_imports"},
]
# Packages that each package of the worker side may import; the modules outside of them may import all.
ROOMS: dict[str, set[str]] = {
    "autotune": {"", "comm", "data", "models"},
    "check": {""},
    "checkpoints": {"", "comm"},
    "comm": {"tensorflow_operations"},
    "data": {"tensorflow_operations"},
    "engines": {"", "data", "models", "optim"},
    "models": {"tensorflow_operations"},
    "optim": {"tensorflow_operations"},
    "tensorflow_operations": set(),
    "supervision": set(),
    "telemetry": {"supervision"},
}
# The only module or package that may import each external tool.
TOOLS = {
    "docker": "docker.engine",
    "google": "providers.gcp.api",
    "keystoneauth1": "providers.openstack.api",
    "openstack": "providers.openstack.api",
    "paramiko": "ssh",
    "ansible_runner": "ansible.runner",
    "matplotlib": "plot",
    "python_terraform": "terraform",
    "subprocess": "process",
    "yaml": "config.yaml_documents",
}


def modules() -> dict[str, Path]:
    """Return every module by its dotted name below `orchestrator`; the package itself is ""."""
    names = {
        path: path.relative_to(packaged_files.PACKAGE).with_suffix("").parts
        for path in packaged_files.PACKAGE.rglob("*.py")
    }
    return {".".join(part for part in parts if part != "__init__"): path for path, parts in names.items()}


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports; for `from package import name`, also with the name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides where it leads"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> set[str]:
    """Return the imports of a module from `orchestrator`, as names of :func:`modules`."""
    every = modules()
    names = (name.split(".")[1:] for name in imports(path) if name.partition(".")[0] == "orchestrator")
    return {".".join(parts) if ".".join(parts) in every else ".".join(parts[:-1]) for parts in names}


def room(module: str) -> str:
    return module.partition(".")[0]


def layer(module: str) -> int:
    return next(number for number, rooms in enumerate(LAYERS) if room(module) in rooms)


CONTROL = {name: path for name, path in modules().items() if name and room(name) != "trainer"}
TRAINER = {name: path for name, path in modules().items() if room(name) == "trainer"}


def test_every_module_of_the_control_side_has_its_layer() -> None:
    assert {room(name) for name in CONTROL} == set.union(*LAYERS)


@pytest.mark.parametrize("module", CONTROL)
def test_module_imports_only_from_lower_layers(module: str) -> None:
    others = {name for name in ours(CONTROL[module]) if name and room(name) != room(module)}
    assert {name for name in others if room(name) == "trainer" or layer(name) <= layer(module)} == set()


@pytest.mark.parametrize("module", TRAINER)
def test_worker_side_imports_only_itself_and_shared_modules(module: str) -> None:
    assert {room(name) for name in ours(TRAINER[module])} <= {"", "trainer", *context.SHARED}


@pytest.mark.parametrize("module", TRAINER)
def test_worker_package_imports_only_its_allowed_packages(module: str) -> None:
    rooms = {".".join(name.split(".")[1:-1]) for name in ours(TRAINER[module]) if room(name) == "trainer"}
    here = module.split(".")[1] if len(module.split(".")) > 2 else ""
    assert rooms - {here} <= ROOMS.get(here, set(ROOMS))


def test_shared_modules_import_nothing_else_of_orchestrator() -> None:
    """And external packages only from the trainer's image, which has no other module of the control side."""
    shared = [path for name, path in CONTROL.items() if room(name) in context.SHARED]
    assert {room(name) for path in shared for name in ours(path)} <= set(context.SHARED)
    foreign = {name.partition(".")[0] for path in shared for name in imports(path)} - sys.stdlib_module_names
    assert foreign == {"orchestrator", "pydantic"}


@pytest.mark.parametrize(("tool", "module"), TOOLS.items())
def test_each_external_tool_is_imported_by_one_module(tool: str, module: str) -> None:
    importers = {name for name, path in CONTROL.items() if any(n.partition(".")[0] == tool for n in imports(path))}
    assert {name for name in importers if name != module and not name.startswith(f"{module}.")} == set()
    assert importers


def test_every_imported_package_is_declared() -> None:
    """Packages that are installed only as dependencies of others may disappear with any release."""
    project = (packaged_files.PACKAGE.parent / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.DOTALL | re.MULTILINE)
    assert block is not None
    declared = re.findall(r'^  "([\w.-]+)', block[1], re.MULTILINE)
    brought = {path.parts[0].partition(".")[0] for name in declared for path in metadata.files(name) or []}
    names = {name.partition(".")[0] for path in CONTROL.values() for name in imports(path)}
    foreign = names - sys.stdlib_module_names - {"orchestrator", "pydantic_core"}  # which pydantic pins to itself
    assert foreign - brought == set()


def test_only_the_command_line_prints_or_exits() -> None:
    def calls(path: Path) -> set[str]:
        functions = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        return {ast.unparse(function) for function in functions} & {"print", "sys.exit", "exit", "input"}

    assert {name for name, path in CONTROL.items() if calls(path) and room(name) != "cli"} == set()


@pytest.mark.parametrize(
    "module", ["telemetry.exporter", "data.inspect_dataset", "telemetry.node_report", "supervision.leftover_processes"]
)
def test_fast_modules_import_no_tensorflow(module: str) -> None:
    """Nor pydantic, also not by the modules that both sides share."""
    every, below = modules(), {f"trainer.{module}"}
    while more := {other for name in below for other in ours(every[name])} - below:
        below |= more
    named = {name.partition(".")[0] for part in below for name in imports(every[part])}
    assert named & {"tensorflow", "keras", "horovod", "numpy", "pydantic"} == set()
