"""Commands and files over one connection that breaks, or whose local files change."""

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from orchestrator import ssh
from orchestrator.errors import ConfigError, ContractError
from orchestrator.ssh import Session, Unreachable, channels, pack_tar, session
from tests.stand_ins import cutting_relay, ssh_stand_in
from tests.waiting import until

OUTPUT = b"line\n" * (1 << 18)


def test_output_cut_by_a_broken_connection_is_an_error() -> None:
    with (
        ssh_stand_in.listening(lambda _: OUTPUT) as (port, host_key),
        cutting_relay.relay_to(port, [len(OUTPUT) // 2]) as (near, _),
        pytest.raises(Unreachable, match="connection broke"),
        ssh.connect(*ssh_stand_in.deployed(near, host_key), "demo-head") as head,
    ):
        list(head.follow(["cat", "log"]))


def test_output_is_followed_to_its_end_whatever_the_exit_code() -> None:
    with ssh_stand_in.session() as head:
        assert b"".join(head.follow(["sh", "-c", "echo begun; echo no log >&2; exit 1"])) == b"begun\n"


def test_connection_that_falls_silent_ends_the_following(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing closes the connection: a jump host accepts what is sent, and this machine has changed its network."""
    monkeypatch.setattr(session, "SILENT_SECONDS", 0.3)
    with (
        ssh_stand_in.listening(ssh_stand_in.honest) as (port, host_key),
        cutting_relay.relay_to(port, []) as (near, relay),
        ssh.connect(*ssh_stand_in.deployed(near, host_key), "demo-head") as head,
    ):
        output = head.follow(["sh", "-c", "echo begun; exec sleep 20"])
        assert next(output) == b"begun\n"
        relay.silent.set()
        with pytest.raises(Unreachable):
            next(output)


def test_command_that_is_silent_for_long_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SILENT_SECONDS", 0.2)
    with ssh_stand_in.session() as head:
        assert b"".join(head.follow(["sh", "-c", "echo begun; sleep 1; echo ended"])) == b"begun\nended\n"


LONG = f"head -c {2 * pack_tar.WINDOW} /dev/zero >&2; "
COMPLAINS = ["sh", "-c", f"{LONG} echo ended"]
RUN_TO_THE_END: dict[str, Callable[[Session], object]] = {
    "run": lambda head: head.run(COMPLAINS, timeout=3.0).output.encode(),
    "read": lambda head: b"".join(head.read("read", COMPLAINS, 100, timeout=3.0)),
    "converse": lambda head: "".join(head.converse("ask", COMPLAINS, "")).encode(),
}


@pytest.mark.parametrize("run", RUN_TO_THE_END.values(), ids=RUN_TO_THE_END)
def test_command_with_a_long_standard_error_ends(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[Session], object]
) -> None:
    monkeypatch.setattr(session, "ANSWER_SECONDS", 3.0)
    with ssh_stand_in.session() as head:
        assert run(head) == b"ended\n"


def test_command_with_a_long_standard_error_takes_its_input(tmp_path: Path) -> None:
    written = tmp_path / "written"
    with ssh_stand_in.session() as head:
        head.write("write", ["sh", "-c", f"{LONG} exec cat > {written}"], [bytes(4 * pack_tar.WINDOW)], timeout=3.0)
    assert written.stat().st_size == 4 * pack_tar.WINDOW


def test_too_long_standard_error_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "ANSWER_BYTES", pack_tar.WINDOW)
    with ssh_stand_in.session() as head, pytest.raises(ContractError, match="sends more than 2 MiB of answer"):
        head.run(COMPLAINS, timeout=3.0)


def test_file_that_becomes_shorter_while_it_is_sent_is_named(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(bytes(4 * pack_tar.WINDOW))  # more than is sent before the node reads

    def cut(_: str) -> None:
        assert until(lambda: str(file) in {opened.path for opened in psutil.Process().open_files()})
        os.truncate(file, 1)

    (target := tmp_path / "node").mkdir()
    with ssh_stand_in.session(cut) as head, pytest.raises(ConfigError, match=f"{file}: became shorter"):
        head.send({"data": file}, str(target))
