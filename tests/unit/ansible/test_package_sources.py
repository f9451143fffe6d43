"""The role operating_system with a machine's package sources, of which some are broken; apt-get is a stand-in."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import packaged_files, state
from orchestrator.ansible import runner
from tests import builders

BROKEN = """\
W: GPG error: https://repo.example.org stable InRelease: The following signatures were invalid: EXPKEYSIG 0123
E: The repository 'https://repo.example.org stable InRelease' is not signed.
N: See apt-secure(8) manpage for repository creation and user configuration details.
W: http://mirror.example.org/dists/bookworm/InRelease: Key is stored in legacy trusted.gpg keyring
E: Some index files failed to download. They have been ignored, or old ones used instead.
"""
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"
Update = Callable[..., list[str]]


@pytest.fixture
def update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Update:
    """Return a function that runs the update with a script as apt-get, and returns the notes."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def run(script: str) -> list[str]:
        (tmp_path / "apt-get").write_text(f"#!/bin/sh\necho $* >> {tmp_path}/asked\n{script}\n")
        (tmp_path / "apt-get").chmod(0o755)
        tasks = packaged_files.directory("ansible") / "roles" / "operating_system" / "tasks"
        play = {
            "hosts": "demo-head",
            "gather_facts": False,
            "vars": {"operating_system_seconds": 3, "operating_system_pause": 1},
            "tasks": [{"ansible.builtin.import_tasks": str(tasks / "update_package_lists.yml")}],
        }
        (tmp_path / "play.yml").write_text(json.dumps([play]))
        inventory = builders.inventory(builders.cluster())
        inventory["all"]["vars"] |= {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        recap = runner._run(state.for_cluster("demo"), str(tmp_path / "play.yml"), inventory, lambda task: None, "")
        return recap.notes

    return run


def test_sources_that_work_are_not_mentioned(update: Update, tmp_path: Path) -> None:
    assert update("echo 'W: Key is stored in legacy trusted.gpg keyring' >&2") == []
    assert (tmp_path / "asked").read_text() == "update --quiet --error-on=any\n"


def test_broken_source_is_noted_with_the_remedy(update: Update) -> None:
    [note] = update(f"cat >&2 << 'END'\n{BROKEN}END\nexit 100")
    assert note == (
        "apt cannot read all package sources of demo-head "
        "(W: GPG error: https://repo.example.org stable InRelease: The following signatures were invalid: "
        "EXPKEYSIG 0123; E: The repository 'https://repo.example.org stable InRelease' is not signed.), "
        "so packages may be missing or old: repair or remove these sources in "
        "/etc/apt/sources.list and /etc/apt/sources.list.d there, until "
        "`sudo apt-get update` reports no error"
    )


def test_update_waits_for_the_lock_of_another_process(update: Update, tmp_path: Path) -> None:
    assert update(f"[ $(wc -l < {tmp_path}/asked) -gt 2 ] || {{ echo '{LOCKED}' >&2; exit 100; }}") == []
    assert len((tmp_path / "asked").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("Temporary failure resolving 'mirror.example.org'", "set `openstack.dns` to name servers of the site"),
        (
            "Could not connect to mirror.example.org:80 (192.0.2.7), connection timed out",
            "its proxy in /etc/apt/apt.conf.d",
        ),
        (
            "Cannot initiate the connection to mirror.example.org:80 (101: Network is unreachable)",
            "with the site's mirror",
        ),
    ],
)
def test_machine_without_a_way_to_the_sources_gets_the_remedy_for_it(update: Update, reason: str, remedy: str) -> None:
    failed = f"E: Failed to fetch http://mirror.example.org/debian/dists/bookworm/InRelease  {reason}"
    [note] = update(f'echo "{failed}" >&2; exit 100')
    assert f"({' '.join(failed.split())}), so packages may be missing or old: " in note
    assert remedy in note
    assert "remove these sources" not in note
