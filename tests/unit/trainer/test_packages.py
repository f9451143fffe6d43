"""Overlays made by the head's program: real pip, real virtual environments, wheels instead of an index."""

import json
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from orchestrator.schema.packages import MANIFEST, Overlay, Overlays, PackagesMessage, PackagesRequest
from orchestrator.trainer.packages import conflicts_with_image, overlays, pip
from orchestrator.trainer.packages.conflicts_with_image import Protected
from tests.stand_ins import wheels
from tests.waiting import ends, until

HASH = "0123456789ab"
ROOM = "orchestrator.trainer.packages"
IMAGE = Protected({"numpy": "2.4.6"}, {}, {"numpy": "tensorflow"}, {})


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.image(tmp_path_factory.mktemp("image") / "python")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    return tmp_path / "packages"


@pytest.fixture
def wheelhouse(tmp_path: Path) -> Path:
    """Write a directory of wheels."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    wheels.wheel(directory, "mine", "1.0", ["other>=2", "tensorflow>=2.16"], program=True)
    wheels.wheel(directory, "other", "2.0")
    wheels.wheel(directory, "picky", "1.0", ["numpy<2"])
    wheels.wheel(directory, "requests", "2.31.0")
    wheels.wheel(directory, "requests", "1.0")
    wheels.wheel(directory, "numpy", "2.5.0")
    wheels.wheel(directory, "rich", "13.0")
    return directory


def request(wheelhouse: Path | None, *lines: str, **changes: Any) -> str:
    values: dict[str, Any] = {
        "hash": HASH,
        "base": HASH,
        "source": "requirements.txt",
        "asked": list(lines),
        "requirements": list(lines),
        "constraints": [],
        "wheels": str(wheelhouse) if wheelhouse else None,
        "environment": {},
        "certificates": "",
    }
    return json.dumps({**values, **changes}) + "\n"


def start(python: Path, shared: Path) -> "subprocess.Popen[str]":
    argv = [str(python), "-m", f"{ROOM}.install", str(shared)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def install(python: Path, shared: Path, requested: str) -> PackagesMessage:
    """Return the last message; standard input stays open until then."""
    with start(python, shared) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(requested)
        process.stdin.flush()
        lines = process.stdout.read().splitlines()
    assert process.returncode == 0, lines
    return PackagesMessage.model_validate_json(lines[-1])


def installed(python: Path, shared: Path, requested: str) -> Overlay:
    message = install(python, shared, requested)
    assert message.overlay is not None, message
    return message.overlay


def refused(python: Path, shared: Path, requested: str) -> list[tuple[str, str | None, str, str]]:
    """Return the conflicts; require that no overlay was made."""
    message = install(python, shared, requested)
    assert message.problem is not None, message
    assert not (shared / HASH).exists()
    conflicts = message.problem.conflicts
    return [
        (conflict.wanted.replace("horovod@", "horovod @"), conflict.by, conflict.installed, conflict.needed_by)
        for conflict in conflicts
    ]


def test_packages_are_installed_on_top_of_the_images(python: Path, shared: Path, wheelhouse: Path) -> None:
    overlay = installed(python, shared, request(wheelhouse, "mine", "horovod[tensorflow]==0.28.1", "tensorflow"))
    assert overlay.packages == {"mine": "1.0", "other": "2.0"}
    code = "import mine, sys; from importlib import metadata; print(mine.VERSION, metadata.version('tensorflow'))"
    messages = [
        subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
        for argv in ([f"{shared}/{HASH}/bin/python", "-c", code], [f"{shared}/{HASH}/bin/mine"])
    ]
    assert messages == ["1.0 2.21.0", "1.0"]


def test_notebooks_have_a_kernel_for_packages(python: Path, shared: Path, wheelhouse: Path) -> None:
    installed(python, shared, request(wheelhouse, "other"))
    kernel = json.loads((shared / ".jupyter" / "kernels" / HASH / "kernel.json").read_text())
    assert kernel["argv"][0] == f"{shared}/{HASH}/bin/python"
    assert kernel["env"]["PATH"].startswith(f"{shared}/{HASH}/bin:")


def test_installed_packages_are_not_installed_again(python: Path, shared: Path, wheelhouse: Path) -> None:
    first = installed(python, shared, request(wheelhouse, "other"))
    assert installed(python, shared, request(None, "other")) == first


def test_concurrent_installations_make_one_overlay(python: Path, shared: Path, wheelhouse: Path) -> None:
    several = [start(python, shared) for _ in range(2)]
    for process in several:
        assert process.stdin
        process.stdin.write(request(wheelhouse, "mine"))
        process.stdin.flush()
    ends = [PackagesMessage.model_validate_json(p.stdout.read().splitlines()[-1]) for p in several if p.stdout]
    for process in several:
        assert process.stdin
        process.stdin.close()
        assert process.wait(10) == 0
    assert ends[0].overlay is not None
    assert ends[0] == ends[1]


def test_files_of_an_interrupted_installation_are_replaced(python: Path, shared: Path, wheelhouse: Path) -> None:
    (shared / HASH / "lib").mkdir(parents=True)
    (shared / HASH / "lib" / "half").touch()
    assert installed(python, shared, request(wheelhouse, "other")).packages == {"other": "2.0"}
    assert not (shared / HASH / "lib" / "half").exists()


def test_installation_without_a_client_leaves_nothing(python: Path, shared: Path, tmp_path: Path) -> None:
    slow, began = tmp_path / "slow", tmp_path / "began"
    slow.mkdir()
    backend = '[build-system]\nrequires = []\nbuild-backend = "slow"\nbackend-path = ["."]\n'
    (slow / "pyproject.toml").write_text(backend)
    (slow / "slow.py").write_text(
        f"import os, pathlib, time\npathlib.Path({str(began)!r}).write_text(str(os.getpid()))\ntime.sleep(300)\n"
    )
    with start(python, shared) as process:
        assert process.stdin
        process.stdin.write(request(None, str(slow)))
        process.stdin.flush()
        assert until(lambda: began.exists() and began.read_text(), 60)
        process.stdin.close()
        assert process.wait(10) == 1
    assert not (shared / HASH).exists()
    assert ends(int(began.read_text()))


def test_other_versions_than_the_images_are_refused_by_name(python: Path, shared: Path, wheelhouse: Path) -> None:
    lines = ("numpy==1.26.4", "keras==2.15", "tensorflow<2.20", "mine", "horovod @ https://x/h.zip", "rich<14")
    assert refused(python, shared, request(wheelhouse, *lines)) == [
        ("numpy==1.26.4", None, "2.4.6", "tensorflow-cpu"),
        ("keras==2.15", None, "3.15.1", "tensorflow-cpu"),
        ("tensorflow<2.20", None, "2.21.0", "tensorflow"),
        ("horovod @ https://x/h.zip", None, "0.28.1", "horovod"),
    ]


def test_line_for_another_system_causes_no_conflict(python: Path, shared: Path, wheelhouse: Path) -> None:
    requested = request(wheelhouse, 'numpy==1.26.4 ; sys_platform == "win32"', "other")
    assert installed(python, shared, requested).packages == {"other": "2.0"}


def test_packages_that_need_other_versions_are_refused(python: Path, shared: Path, wheelhouse: Path) -> None:
    expected = [("numpy<2", "picky 1.0", "2.4.6", "tensorflow-cpu")]
    assert refused(python, shared, request(wheelhouse, "picky")) == expected


def test_pure_requirements_of_frameworks_may_change_in_range(python: Path, shared: Path, wheelhouse: Path) -> None:
    requested = request(wheelhouse, "requests==2.31.0", "rich==13.0")
    assert installed(python, shared, requested).packages == {"requests": "2.31.0", "rich": "13.0"}


def test_requirements_of_frameworks_outside_the_range_are_refused(python: Path, shared: Path, wheelhouse: Path) -> None:
    expected = [("requests==1.0", None, "2.34.2", "tensorflow-cpu")]
    assert refused(python, shared, request(wheelhouse, "requests==1.0")) == expected


def test_compiled_packages_are_never_upgraded(python: Path, shared: Path, wheelhouse: Path) -> None:
    assert (wheelhouse / "numpy-2.5.0-py3-none-any.whl").exists()
    assert installed(python, shared, request(wheelhouse, "numpy>=2", "other")).packages == {"other": "2.0"}


def test_dependencies_of_a_pyproject_toml_are_installed(python: Path, shared: Path, wheelhouse: Path) -> None:
    requested = request(wheelhouse, pyproject='[project]\nname = "x"\ndependencies = ["other"]\n')
    assert installed(python, shared, requested).packages == {"other": "2.0"}


@pytest.mark.parametrize("text", ["[project", '[project]\ndynamic = ["dependencies"]\n', "project = 1\n"])
def test_unusable_pyproject_toml_is_named(python: Path, shared: Path, text: str) -> None:
    message = install(python, shared, request(None, pyproject=text, source="pyproject.toml"))
    assert message.problem
    assert (message.problem.kind, message.problem.lines[0][:14]) == ("failed", "pyproject.toml")


def test_package_without_a_wheel_is_missing(python: Path, shared: Path, wheelhouse: Path) -> None:
    message = install(python, shared, request(wheelhouse, "nowhere"))
    assert message.problem
    assert (message.problem.kind, message.problem.package) == ("missing", "nowhere")


def test_index_that_refuses_connections_is_offline(python: Path, shared: Path) -> None:
    settings = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    message = install(python, shared, request(None, "nowhere", environment=settings))
    assert message.problem
    assert message.problem.kind == "offline"


def test_conflict_of_two_packages_quotes_pip() -> None:
    lines = ["The conflict is caused by:", "    a 1 depends on six<1", "    b 2 depends on six>=1"]
    assert pip.problem(lines, IMAGE).kind == "failed"
    assert pip.problem(lines, IMAGE).lines == lines


def test_only_conflicts_with_the_image_are_named_so() -> None:
    lines = ["    a 1 depends on numpy<2 and >=1.22", "    b 2 depends on numpy>=1.22"]
    conflicts = pip.problem([*lines, "    The user requested (constraint) numpy==2.4.6"], IMAGE).conflicts
    assert [(conflict.by, conflict.wanted) for conflict in conflicts] == [("a 1", "numpy<2,>=1.22")]


def test_packages_of_the_same_base_are_reused_and_code_replaced(
    python: Path, shared: Path, wheelhouse: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory, version in ((first, "1.0"), (second, "2.0")):
        directory.mkdir()
        wheels.wheel(directory, "local", version, ["other"], program=True)
    installed(python, shared, request(wheelhouse, "mine", f"{first}/local-1.0-py3-none-any.whl"))
    (wheelhouse / "other-2.0-py3-none-any.whl").unlink()  # not needed again
    requested = request(wheelhouse, "mine", f"{second}/local-2.0-py3-none-any.whl", hash="f" * 12)
    assert installed(python, shared, requested).packages == {"local": "2.0", "mine": "1.0", "other": "2.0"}
    messages = [
        subprocess.run([f"{shared}/{name}/bin/local"], capture_output=True, text=True, check=True).stdout.strip()
        for name in (HASH, "f" * 12)
    ]
    assert messages == ["1.0", "2.0"]
    assert (shared / ("f" * 12) / "bin" / "mine").read_text().startswith(f"#!{shared}/{'f' * 12}/bin/python")


def test_reused_packages_keep_files_that_are_named_like_the_manifest(
    python: Path, shared: Path, wheelhouse: Path
) -> None:
    with zipfile.ZipFile(wheelhouse / "other-2.0-py3-none-any.whl", "a") as archive:
        archive.writestr(f"data/{MANIFEST}", "[]")
    installed(python, shared, request(wheelhouse, "other"))
    overlay = installed(python, shared, request(wheelhouse, "other", hash="f" * 12))
    assert (overlays.packages_directory(shared / overlay.hash) / "data" / MANIFEST).exists()


SCM = "SETUPTOOLS_SCM_PRETEND_VERSION"


@pytest.mark.parametrize(
    ("project", "requires", "variables"),
    [
        ('name = "My-own.pkg"\ndynamic = ["version"]', "setuptools-scm>=8", {f"{SCM}_FOR_MY_OWN_PKG": "0.0"}),
        ('name = "mine"\ndynamic = ["version"]', "hatch-vcs", {SCM: "0.0"}),
        ('name = "mine"\nversion = "1"', "setuptools-scm", {}),
        ('name = "mine"\ndynamic = 3', "setuptools-scm", {}),
        ("name = ", "setuptools-scm", {}),
    ],
)
def test_local_package_without_its_git_history_gets_a_version(
    tmp_path: Path, project: str, requires: str, variables: dict[str, str]
) -> None:
    pytest.importorskip("tomllib")
    (tmp_path / "pyproject.toml").write_text(f'[build-system]\nrequires = ["{requires}"]\n[project]\n{project}\n')
    lines = ["six", f"{tmp_path}[dev] ; python_version > '3'", "/nowhere/local/2"]
    environment = pip._environment(PackagesRequest.model_validate_json(request(None, *lines)))
    assert {name: value for name, value in environment.items() if name.startswith(SCM)} == variables


def test_version_that_a_user_sets_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("tomllib")
    text = '[build-system]\nrequires = ["setuptools-scm"]\n[project]\nname = "mine"\ndynamic = ["version"]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    own = {f"{SCM}_FOR_MINE": "1.2"}
    asked = PackagesRequest.model_validate_json(request(None, str(tmp_path), environment=own))
    assert pip._environment(asked)[f"{SCM}_FOR_MINE"] == "1.2"


def manage(python: Path, shared: Path, *hashes: str) -> list[str]:
    argv = [str(python), "-m", f"{ROOM}.list_and_remove", str(shared), *hashes]
    output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return [overlay.hash for overlay in Overlays.model_validate_json(output).overlays]


def test_packages_that_an_interrupted_pip_left_are_left_out(tmp_path: Path) -> None:
    site = overlays.packages_directory(tmp_path)
    for name, text in (("other", wheels.metadata("other", "1.0")), ("torch", wheels.metadata("torch", "2.0"))):
        (site / f"{name}-1.dist-info").mkdir(parents=True)
        (site / f"{name}-1.dist-info" / "METADATA").write_text(text)
        (site / f"damaged-{name}-1.dist-info").mkdir()
    assert overlays.installed(tmp_path) == {"other": "1.0", "torch": "2.0"}
    assert conflicts_with_image.protected(site).exact == {"torch": "2.0"}


def test_overlays_are_listed_and_removed_with_their_kernels(python: Path, shared: Path, wheelhouse: Path) -> None:
    assert manage(python, shared) == []
    for name in (HASH, "f" * 12):
        installed(python, shared, request(wheelhouse, "other", hash=name))
    (shared / ("e" * 12)).mkdir()  # unfinished
    assert manage(python, shared) == [HASH, "f" * 12]
    assert manage(python, shared, HASH) == ["f" * 12]
    assert [path.name for path in (shared / ".jupyter" / "kernels").iterdir()] == ["f" * 12]
    assert not (shared / HASH).exists()
    assert manage(python, shared, "--all") == []
    assert [path.name for path in shared.iterdir() if not path.name.startswith(".")] == []


def test_nothing_is_removed_during_an_installation(python: Path, shared: Path) -> None:
    argv = [str(python), "-m", f"{ROOM}.list_and_remove", str(shared), HASH]
    with overlays.locked(shared, lambda: None):
        refused = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (1, "packages are being installed: wait for it\n")


BACKEND = """import pathlib, shutil
def build_wheel(directory, *_):
    made, = pathlib.Path(__file__).parent.glob("*.whl")
    return pathlib.Path(shutil.copy(made, directory)).name
"""
BUILD_SYSTEM = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[str]:
    """Serve a git repository with a package over HTTP, and yield its address."""
    directory = tmp_path / "repository"
    directory.mkdir()
    wheels.wheel(directory, "cloned", "4.0")
    (directory / "backend.py").write_text(BACKEND)
    (directory / "pyproject.toml").write_text(BUILD_SYSTEM)
    author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for words in (("init",), ("add", "."), (*author, "commit", "--message", "first"), ("update-server-info",)):
        subprocess.run(["git", *words], cwd=directory, check=True, capture_output=True)
    handler = partial(SimpleHTTPRequestHandler, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"git+http://127.0.0.1:{server.server_port}/.git"
        server.shutdown()


def test_package_of_a_git_repository_is_cloned(python: Path, shared: Path, repository: str) -> None:
    assert installed(python, shared, request(None, f"cloned @ {repository}")).packages == {"cloned": "4.0"}
