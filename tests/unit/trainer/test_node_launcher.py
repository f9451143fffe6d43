"""Launch on another host, with a stand-in for ssh. Several hosts: tests/trainer/test_node_launcher.py, in the image."""

import json
import math
import sys
from pathlib import Path

import pytest

from orchestrator import launch_layout
from orchestrator.launch_layout import RAY, RAY_TOKEN, Layout, Process
from tests import waiting
from tests.stand_ins import supervised_run
from tests.unit.conftest import StandIn, Start

HOST = "10.0.0.2"
LAUNCH = """
import pathlib, sys
from orchestrator.trainer.supervision import node_launcher
node_launcher._rendezvous = lambda layout: {}  # there is no Horovod here
sys.exit(node_launcher.main(pathlib.Path(sys.argv[1])))
"""
# The agent has a session of its own, as on another host, and its output comes through this process.
SSH = 'while [ "$1" != 10.0.0.2 ]; do shift; done; shift; /usr/bin/setsid --wait "$@" | /bin/cat'
SAVES = """
import os, signal, sys, time
def save(*_):
    time.sleep(0.5)
    print("saved", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, save)
print(os.getpid(), flush=True)
time.sleep(60)
"""


def directory(tmp_path: Path, code: str) -> Path:
    """Return the directory of a run with one rank, which runs ``code`` behind ssh."""
    run_directory = supervised_run.directory(tmp_path)
    wrapper = [sys.executable, "-m", "orchestrator.trainer.supervision.rank_wrapper", str(run_directory)]
    layout = Layout({"127.0.0.1": 1}, ["127.0.0.1"], "lo", 1, math.inf, {HOST: [Process(wrapper, 0)]})
    (run_directory / "launch.json").write_text(layout.text())
    (run_directory / "program.json").write_text(json.dumps([sys.executable, "-c", code]))
    return run_directory


def test_stop_keeps_what_a_remote_rank_writes_as_it_ends(start: Start, stand_in: StandIn, tmp_path: Path) -> None:
    stand_in("ssh", SSH)
    run_directory = directory(tmp_path, SAVES)
    process = supervised_run.supervise(start, run_directory, "-c", LAUNCH, str(run_directory))
    rank = supervised_run.pid_in_log(run_directory)
    process.terminate()
    process.wait()
    assert (run_directory / "log").read_text() == f"[0]<stdout>:{rank}\n[0]<stdout>:saved\n"
    assert supervised_run.status(run_directory).state == "stopped"
    assert waiting.ends(rank)


def test_ssh_ends_with_a_launcher_that_is_killed(start: Start, stand_in: StandIn, tmp_path: Path) -> None:
    stand_in("ssh", 'echo "$$"; exec /bin/sleep 60')
    launcher = start("-c", LAUNCH, str(directory(tmp_path, "")), ORCHESTRATOR_RUN=tmp_path.name)
    ssh = int(waiting.read_line(launcher))
    launcher.kill()
    launcher.wait()
    assert waiting.ends(ssh)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="nodes have Python 3.11 or newer")
def test_agent_on_the_head_imports_nothing_from_the_directory_of_the_script(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_directory = supervised_run.directory(tmp_path)
    layout = Layout({"127.0.0.1": 1}, ["127.0.0.1"], "lo", 1, math.inf, {"127.0.0.1": [Process(["/bin/echo", "on"])]})
    (run_directory / "launch.json").write_text(layout.text())
    (tmp_path / "orchestrator.py").write_text("print('a file of the user')")
    monkeypatch.chdir(tmp_path)
    variables = {"ORCHESTRATOR_RUN": run_directory.name, "ORCHESTRATOR_PORT": "20000"}
    launcher = start("-P", "-c", LAUNCH, str(run_directory), **variables)
    assert waiting.read_line(launcher) == "on"
    assert launcher.wait() == 0


def test_programs_without_a_rank_get_the_interface_unless_the_user_sets_it(
    start: Start, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in("ssh", SSH)
    run_directory = supervised_run.directory(tmp_path)
    (run_directory / "environment.json").write_text('{"NCCL_SOCKET_IFNAME": "ib0"}')
    shown = ["/bin/sh", "-c", 'echo "$GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME $TP_SOCKET_IFNAME"']
    layout = Layout({"127.0.0.1": 1}, ["127.0.0.1"], "lo", 1, math.inf, {HOST: [Process(shown)]})
    (run_directory / "launch.json").write_text(layout.text())
    process = supervised_run.supervise(start, run_directory, "-c", LAUNCH, str(run_directory))
    process.wait()
    assert "lo ib0 lo\n" in (run_directory / "log").read_text()


def test_ray_needs_a_token_that_only_the_account_of_the_run_can_read(
    start: Start, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in("ssh", SSH)
    run_directory = supervised_run.directory(tmp_path)
    shown = ["/bin/sh", "-c", 'echo "$RAY_AUTH_MODE"; /usr/bin/stat --format "%a %s" "$RAY_AUTH_TOKEN_PATH"', RAY]
    layout = Layout({"127.0.0.1": 1}, ["127.0.0.1"], "lo", 1, math.inf, {HOST: [Process(shown)]})
    (run_directory / "launch.json").write_text(layout.text())
    supervised_run.supervise(start, run_directory, "-c", LAUNCH, str(run_directory)).wait()
    assert "token\n600 64\n" in (run_directory / "log").read_text()
    assert not (run_directory / RAY_TOKEN).exists()


def test_ray_does_not_start_in_the_directory_of_another_account(
    start: Start, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in("ssh", SSH)
    run_directory = supervised_run.directory(tmp_path)
    scratch = Path(launch_layout.scratch(run_directory.name))
    scratch.symlink_to(tmp_path)  # which an agent does not remove either
    layout = Layout({"127.0.0.1": 1}, ["127.0.0.1"], "lo", 1, math.inf, {HOST: [Process(["/bin/echo", RAY])]})
    (run_directory / "launch.json").write_text(layout.text())
    try:
        supervised_run.supervise(start, run_directory, "-c", LAUNCH, str(run_directory)).wait()
    finally:
        scratch.unlink()
    log = (run_directory / "log").read_text()
    assert f"{scratch}: File exists on " in log
    assert RAY not in log  # the daemon did not run
