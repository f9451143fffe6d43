"""A user's packages on a local cluster: installed once, refused by name, interrupted, removed."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Cli, wait_for
from tests.long.shared_nodes import CLUSTER, HEAD
from tests.stand_ins import wheels

REFUSING = "http://127.0.0.1:9/simple"  # a port of the head's loopback on which no service listens
SCRIPT = """\
import shutil, sys
import horovod.tensorflow as hvd
hvd.init()
import emoji, numpy, tensorflow
print(f"rank {hvd.rank()}: {emoji.__file__} {numpy.__file__} {shutil.which('tabulate')}")
"""
KERNEL = """\
import nbformat
from nbclient import NotebookClient
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import emoji; print(emoji.__file__)")])
NotebookClient(notebook, kernel_name=KERNEL, timeout=120).execute()
print(notebook.cells[0].outputs[0].text)
"""
BACKEND = "import time\ntime.sleep(300)\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def run(cli: Cli, project: Path, *options: str, code: int = 0) -> Any:
    return cli("run", *options, "--", "python", str(project / "train.py"), cluster=CLUSTER, code=code)


def on_head(cli: Cli, *argv: str) -> str:
    return cli("ssh", HEAD, "--", *argv, cluster=CLUSTER).stdout


def listed(cli: Cli) -> list[dict[str, Any]]:
    overlays: list[dict[str, Any]] = cli.json("packages", cluster=CLUSTER)
    return overlays


def test_version_conflict_is_refused_by_name_before_the_run(cli: Cli, project: Path) -> None:
    runs = cli.json("runs", cluster=CLUSTER)
    (project / "requirements.txt").write_text("emoji\ntabulate==0.9.0\nnumpy==1.26.4\nkeras==2.15\n")
    message = run(cli, project, code=2).stderr
    assert "requirements.txt: numpy==1.26.4: the image has numpy 2." in message
    assert "requirements.txt: keras==2.15: the image has keras 3." in message
    (project / "requirements.txt").write_text("numba==0.58.1\n")
    assert "numba 0.58.1 needs numpy<1.27,>=1.22: the image has numpy 2." in run(cli, project, code=2).stderr
    assert (cli.json("runs", cluster=CLUSTER), listed(cli)) == (runs, [])


def test_packages_are_installed_once_for_all_ranks_and_runs(cli: Cli, project: Path) -> None:
    (project / "requirements.txt").write_text("emoji\ntabulate==0.9.0\n")
    first = run(cli, project)
    (overlay,) = listed(cli)
    directory = f"/shared/packages/{overlay['hash']}"
    assert "Installing packages" in first.stderr
    assert set(overlay["packages"]) == {"emoji", "tabulate"}
    for finished in (first, run(cli, project)):
        assert finished.stdout.count(f"{directory}/lib/python3.11/site-packages/emoji/__init__.py") == 2
        assert finished.stdout.count("/opt/orchestrator/lib/python3.11/site-packages/numpy/__init__.py") == 2
        assert finished.stdout.count(f"{directory}/bin/tabulate") == 2
    assert "Installing packages" not in finished.stderr
    assert listed(cli)[0]["made"] == overlay["made"]


def test_notebook_has_a_kernel_with_the_packages(cli: Cli) -> None:
    (overlay,) = listed(cli)
    environment = on_head(cli, "sudo", "systemctl", "show", "--property", "Environment", "--value", "notebook").split()
    code = KERNEL.replace("KERNEL", repr(overlay["hash"]))
    output = on_head(cli, "env", *environment, "/opt/orchestrator/bin/python", "-c", code)
    assert f"/shared/packages/{overlay['hash']}/lib/" in output


def test_frameworks_of_the_image_count_as_installed(cli: Cli, project: Path) -> None:
    (project / "train.py").write_text("import horovod.tensorflow\n")
    (project / "requirements.txt").write_text("tensorflow>=2.16\nhorovod[tensorflow,keras]==0.28.1\n")
    run(cli, project)
    assert listed(cli)[-1]["packages"] == {}


def test_wheels_suffice_without_a_reachable_index(cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli.environment, "PIP_INDEX_URL", REFUSING)
    (project / "train.py").write_text("import mine; print(f'mine {mine.VERSION}')\n")
    (project / "requirements.txt").write_text("mine\n")
    refused = run(cli, project, code=2).stderr
    assert "the head cannot reach the package index" in refused
    assert "--wheels DIR" in refused
    (project / "wheels").mkdir()
    wheels.wheel(project / "wheels", "mine", "1.5", ["numpy>=2"])
    assert run(cli, project, "--wheels", str(project / "wheels")).stdout.count("mine 1.5") == 2


def test_changed_local_package_is_sent_and_reinstalled(cli: Cli, project: Path) -> None:
    (project / "src" / "mine").mkdir(parents=True)
    (project / "train.py").write_text("import mine, subprocess\nsubprocess.run(['mine'], check=True)\n")
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=61"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "mine"\nversion = "1"\ndependencies = ["emoji"]\nscripts = { mine = "mine:main" }\n'
        '[tool.setuptools]\npackages = ["mine"]\npackage-dir = { "" = "src" }\n'
    )
    for number in (1, 2):
        (project / "src" / "mine" / "__init__.py").write_text(f"def main():\n    print('number {number}')\n")
        assert run(cli, project).stdout.count(f"number {number}") == 2
    assert set(listed(cli)[-1]["packages"]) == {"emoji", "mine"}


def test_interrupted_installation_leaves_nothing(cli: Cli, project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "slow"\nbackend-path = ["."]\n'
    )
    (project / "slow.py").write_text(BACKEND)
    before = on_head(cli, "ls", "-A", "/shared/packages")
    with cli.start("run", "--", "python", str(project / "train.py"), cluster=CLUSTER) as process:
        wait_for("the build", lambda: building(cli), 60)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    wait_for("the end of pip", lambda: not building(cli), 20)
    assert on_head(cli, "ls", "-A", "/shared/packages") == before


def building(cli: Cli) -> bool:
    return "_in_process.py" in on_head(cli, "ps", "-ww", "-e", "-o", "args=")


def test_remove_keeps_packages_of_a_run_in_progress(cli: Cli, project: Path) -> None:
    (project / "train.py").write_text("import time, emoji\nprint('ready', flush=True)\ntime.sleep(600)\n")
    (project / "requirements.txt").write_text("emoji\ntabulate==0.9.0\n")
    name = run(cli, project, "--detach").stdout.strip()
    refused = cli("packages", "remove", "--all", cluster=CLUSTER, code=1).stderr
    assert f"run {name} is using them" in refused
    used, *others = (overlay["hash"] for overlay in listed(cli))
    cli("packages", "remove", others[0], cluster=CLUSTER)
    assert [overlay["hash"] for overlay in listed(cli)] == [used, *others[1:]]
    cli("stop", name, cluster=CLUSTER)
    cli("packages", "remove", "--all", cluster=CLUSTER)
    assert listed(cli) == []
    assert on_head(cli, "sh", "-c", "ls /shared/packages /shared/packages/.jupyter/kernels").split() == [
        *("/shared/packages:", "/shared/packages/.jupyter/kernels:"),
    ]
