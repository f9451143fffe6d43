"""What of ssh needs no node: commands, answers of many nodes, archives that come back."""

import io
import tarfile
from pathlib import Path

import pytest

from orchestrator import ssh, state
from orchestrator.ssh import Unreachable, transfer
from tests import builders


def test_the_command_of_a_terminal_checks_the_pinned_host_key_with_the_clusters_own_key() -> None:
    place = state.home("demo")
    assert ssh.client_command(place, builders.cluster(), "demo-worker-0", ["ls -l"]) == [
        "ssh",
        *("-i", str(place.key)),
        *("-F", "/dev/null"),
        *("-o", f'UserKnownHostsFile="{place.known_hosts}"'),
        *("-o", "StrictHostKeyChecking=yes"),
        *("-o", "IdentitiesOnly=yes"),
        *("-o", "ServerAliveInterval=10"),
        *("-o", "ServerAliveCountMax=3"),
        *("-o", "ConnectTimeout=10"),
        *("-p", "22"),
        "orchestrator@10.0.0.11",
        "ls -l",
    ]


def test_every_node_is_asked_and_those_that_fail_say_why() -> None:
    def ask(name: str) -> str:
        if name == "demo-worker-1":
            raise Unreachable("timed out")
        return name.upper()

    answers, reasons = ssh.on_every_node(builders.cluster(nodes=4), ask)
    assert list(answers.items()) == [
        ("demo-head", "DEMO-HEAD"),
        ("demo-worker-0", "DEMO-WORKER-0"),
        ("demo-worker-2", "DEMO-WORKER-2"),
    ]
    assert reasons == {"demo-worker-1": "timed out"}


def test_a_fault_of_our_own_on_one_node_is_not_taken_for_a_node_that_is_gone() -> None:
    def ask(name: str) -> None:
        raise ZeroDivisionError(name)

    with pytest.raises(ZeroDivisionError):
        ssh.on_every_node(builders.cluster(), ask)


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, len(b"content") if kind == tarfile.REGTYPE else 0
    return member


def unpack(member: tarfile.TarInfo, target: Path) -> None:
    """Unpack an archive of one member, as `fetch` does with what a node sends."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(member, io.BytesIO(b"content") if member.isfile() else None)
    stream.seek(0)
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for found in archive:
            transfer.unpack(archive, found, target)


def files_below(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


def test_a_regular_file_is_unpacked_below_the_target(tmp_path: Path) -> None:
    unpack(entry("output/model/weights"), tmp_path / "run")
    assert (tmp_path / "run" / "output" / "model" / "weights").read_bytes() == b"content"


@pytest.mark.parametrize("name", ["../stolen", "a/../../stolen", "./../stolen"])
def test_a_name_that_leads_out_of_the_target_is_left_out(tmp_path: Path, name: str) -> None:
    unpack(entry(name), tmp_path / "run")
    assert files_below(tmp_path) == []


def test_an_absolute_name_outside_the_target_is_left_out(tmp_path: Path) -> None:
    unpack(entry(str(tmp_path / "stolen")), tmp_path / "run")
    assert files_below(tmp_path) == []


def test_a_name_that_only_begins_like_the_target_is_left_out(tmp_path: Path) -> None:
    unpack(entry("../runaway/stolen"), tmp_path / "run")
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_what_is_no_regular_file_is_left_out(tmp_path: Path, kind: bytes) -> None:
    unpack(entry("passwords", kind, link="/etc/passwd"), tmp_path / "run")
    assert files_below(tmp_path) == []


def test_a_link_that_is_there_already_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "out").symlink_to(tmp_path)
    unpack(entry("out/stolen"), tmp_path / "run")
    assert files_below(tmp_path) == []
