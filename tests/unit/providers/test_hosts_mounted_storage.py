"""The mark of the deployment that uses a mounted /shared: written by the head, reported by survey.sh, and removed."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from jinja2 import Environment

from orchestrator import packaged_files
from orchestrator.providers import hosts

ROLE = packaged_files.directory("ansible") / "roles" / "node"
MARK = ".orchestrator-deployment"
RUN = "-20260101-000000-0a1b"  # how names of runs end


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return the root of a head with a mounted /shared."""
    (tmp_path / "bin").mkdir()
    runuser = tmp_path / "bin" / "runuser"  # which only root may call
    runuser.write_text('#!/bin/sh\nshift 3\nexport AS_ACCOUNT=yes\nexec "$@"\n')
    runuser.chmod(0o755)
    (tmp_path / "shared" / "runs" / f"lenet{RUN}").mkdir(parents=True)
    adopt(tmp_path, "1a2b3c4d")
    return tmp_path


def adopt(machine: Path, deployment: str) -> None:
    mark = machine / "etc" / "orchestrator" / "deployment"
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(f"cluster demo\nid {deployment}\nnode demo-head\n")


def run_template(machine: Path, template: str) -> str:
    """Run a script of the role, as Ansible renders it."""
    environment = Environment(trim_blocks=True)  # noqa: S701
    environment.filters["quote"] = shlex.quote
    rendered = environment.from_string(template).render(ansible_user="lab", groups={}, inventory_hostname="demo-head")
    return run(machine, rendered)


def run(machine: Path, text: str) -> str:
    """Run a script with other paths, and return its output."""
    text = text.replace("/shared", f"{machine}/shared").replace("/etc/", f"{machine}/etc/")
    path = f"{machine / 'bin'}:{os.environ['PATH']}"
    argv = ["sh", "-c", f"changed={machine}/changed\n{text}"]
    return subprocess.run(argv, env={**os.environ, "PATH": path}, check=True, capture_output=True, text=True).stdout


def mark(machine: Path) -> None:
    """Run the part of the role that prepares and marks the storage."""
    text = (ROLE / "templates" / "write_files.sh.j2").read_text()
    [part] = re.findall(r"^{% if node_is_head %}\n((?s:.*?^{% endif %}\n))", text, re.MULTILINE)
    directory = 'directory() { echo "directory $*" >> "$changed"; }'
    run_template(machine, f"set -eu\n{directory}\n{part}")


def remove(machine: Path) -> None:
    [task] = yaml.safe_load((ROLE / "tasks" / "absent_storage.yml").read_text())
    run_template(machine, task["ansible.builtin.shell"])


def test_head_marks_the_storage_once_and_a_survey_reports_it(machine: Path) -> None:
    mark(machine)
    mark(machine)
    assert (machine / "changed").read_text().splitlines() == [f"{machine}/shared/{MARK}"]
    survey = run(machine, Path(hosts.__file__).with_name("survey.sh").read_text())
    assert [line for line in survey.splitlines() if line.startswith("survey shared_")] == [
        "survey shared_cluster demo",
        "survey shared_id 1a2b3c4d",
    ]


@pytest.mark.parametrize("writable", [True, False])
def test_storage_keeps_its_owner_if_the_account_can_write(machine: Path, writable: bool) -> None:
    program = machine / "bin" / "test"
    program.write_text(f"#!/bin/sh\nexit {0 if writable else 1}\n")
    program.chmod(0o755)
    mark(machine)
    lines = (machine / "changed").read_text().splitlines()
    assert (f"directory {machine}/shared lab" in lines) != writable


def test_survey_reports_where_links_lead(machine: Path) -> None:
    (machine / "shared").rename(machine / "storage")
    (machine / "shared").symlink_to("storage")
    (machine / "lab").symlink_to("storage")
    getent = machine / "bin" / "getent"
    getent.write_text(f"#!/bin/sh\necho orchestrator:x:700:700::{machine}/lab:/bin/bash\n")
    getent.chmod(0o755)
    survey = run(machine, Path(hosts.__file__).with_name("survey.sh").read_text()).splitlines()
    assert {f"survey real_shared {machine}/storage", f"survey real_home {machine}/storage"} <= set(survey)


def test_head_without_a_mark_of_its_own_marks_nothing(machine: Path) -> None:
    (machine / "etc" / "orchestrator" / "deployment").unlink()
    mark(machine)
    assert not (machine / "shared" / MARK).exists()


def test_teardown_removes_runs_and_mark_of_its_own_deployment(machine: Path) -> None:
    mark(machine)
    remove(machine)
    assert not (machine / "shared").exists()


def test_teardown_keeps_storage_that_another_deployment_uses(machine: Path) -> None:
    mark(machine)
    adopt(machine, "another")
    remove(machine)
    assert (machine / "shared" / MARK).exists()
    assert (machine / "shared" / "runs" / f"lenet{RUN}").exists()


def test_storage_without_a_mark_is_emptied(machine: Path) -> None:
    remove(machine)
    assert not (machine / "shared").exists()


def test_teardown_empties_storage_that_does_not_let_root_write(machine: Path) -> None:
    """As NFS that maps root to another account."""
    for name in ("rm", "rmdir"):
        program = machine / "bin" / name
        program.write_text(f'#!/bin/sh\n[ -n "$AS_ACCOUNT" ] || exit 1\nexec {shutil.which(name)} "$@"\n')
        program.chmod(0o755)
    (machine / "shared" / ".orchestrator").mkdir()
    mark(machine)
    remove(machine)
    assert not list((machine / "shared").iterdir())


def test_only_a_task_that_becomes_the_account_removes_files_of_shared() -> None:
    """Root may not, and a task that fails keeps the host marked."""
    absent = [path.read_text() for path in ROLE.parent.glob("*/tasks/*absent*.yml") if path.parent.parent != ROLE]
    assert not [text for text in absent if "/shared/" in text]
