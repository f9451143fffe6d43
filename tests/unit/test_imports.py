"""Imports run one way: read from the source of every module, wherever in it an import stands."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from orchestrator import packaged_files
from orchestrator.docker import context

# From the top down: a module imports what stands below its own line, and the modules of its own package.
LAYERS = [
    {"cli"},
    {"studies"},
    {"lifecycle", "plot", "reproduction"},
    {"monitoring"},
    {"runs"},
    {"providers"},
    {"ansible", "health", "services"},
    {"ssh", "terraform", "lock"},
    {"state"},
    {"docker", "recipes", "gpu_compatibility", "prediction"},
    {"config", "cluster", "process", "bottleneck", "cpu_usage"},
    {"schema", "progress"},
    {"errors", "packaged_files", "launch_layout", "termination", "untrusted_files"},
    {"lazy_imports"},
]
# What each room of the worker side is built on; what lies beside them uses them all.
ROOMS: dict[str, set[str]] = {
    "autotune": {"", "comm", "data", "models"},
    "check": set(),
    "checkpoints": {"", "comm"},
    "comm": {"own_operations"},
    "data": set(),
    "engines": {"", "data", "models", "optim"},
    "models": {"own_operations"},
    "optim": set(),
    "own_operations": set(),
    "supervision": set(),
    "telemetry": {"supervision"},
}
# The one module, or package, that may import each foreign tool.
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
    "yaml": "config.documents",
}


def modules() -> dict[str, Path]:
    """Every module by its dotted name below `orchestrator`; the package itself is ""."""
    names = {
        path: path.relative_to(packaged_files.PACKAGE).with_suffix("").parts
        for path in packaged_files.PACKAGE.rglob("*.py")
    }
    return {".".join(part for part in parts if part != "__init__"): path for path, parts in names.items()}


def imports(path: Path) -> Iterator[str]:
    """The dotted names that a module imports; of `from package import name` both, for name may be a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides where it leads"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> set[str]:
    """What a module imports of `orchestrator`, by the dotted names of :func:`modules`."""
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
def test_a_module_imports_only_what_is_below_it(module: str) -> None:
    others = {name for name in ours(CONTROL[module]) if name and room(name) != room(module)}
    assert {name for name in others if room(name) == "trainer" or layer(name) <= layer(module)} == set()


@pytest.mark.parametrize("module", TRAINER)
def test_the_worker_side_imports_of_ours_itself_and_what_both_sides_share_alone(module: str) -> None:
    assert {room(name) for name in ours(TRAINER[module])} <= {"", "trainer", *context.SHARED}


@pytest.mark.parametrize("module", TRAINER)
def test_a_room_of_the_worker_side_imports_only_what_it_is_built_on(module: str) -> None:
    rooms = {".".join(name.split(".")[1:-1]) for name in ours(TRAINER[module]) if room(name) == "trainer"}
    here = module.split(".")[1] if len(module.split(".")) > 2 else ""
    assert rooms - {here} <= ROOMS.get(here, set(ROOMS))


def test_what_both_sides_share_imports_nothing_of_ours_beside() -> None:
    """And of others only what the trainer's image has: it brings all of these and no other module of this side."""
    shared = [path for name, path in CONTROL.items() if room(name) in context.SHARED]
    assert {room(name) for path in shared for name in ours(path)} <= set(context.SHARED)
    foreign = {name.partition(".")[0] for path in shared for name in imports(path)} - sys.stdlib_module_names
    assert foreign == {"orchestrator", "pydantic"}


@pytest.mark.parametrize(("tool", "module"), TOOLS.items())
def test_each_foreign_tool_has_one_module_that_imports_it(tool: str, module: str) -> None:
    importers = {name for name, path in CONTROL.items() if any(n.partition(".")[0] == tool for n in imports(path))}
    assert {name for name in importers if name != module and not name.startswith(f"{module}.")} == set()
    assert importers


def test_every_package_that_is_imported_is_declared() -> None:
    """Not merely installed because something else needs it: that may change with any release of the other."""
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
    "module", ["telemetry.exporter", "data.inspect_dataset", "telemetry.node_facts", "supervision.processes"]
)
def test_what_must_answer_at_once_imports_no_tensorflow(module: str) -> None:
    below = {module}
    while more := {other for name in below for other in trainer_imports(name)} - below:
        below |= more
    named = {name.partition(".")[0] for part in below for name in imports(TRAINER[f"trainer.{part}"])}
    assert named & {"tensorflow", "keras", "horovod", "numpy", "pydantic"} == set()


def trainer_imports(module: str) -> set[str]:
    """The modules of the worker side that one of them imports."""
    return {name.partition(".")[2] for name in ours(TRAINER[f"trainer.{module}"]) if name.startswith("trainer.")}
