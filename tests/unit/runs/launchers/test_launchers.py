"""Plans of launchers: the programs on the head and on every host."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.launch_layout import Layout, Process
from orchestrator.runs import launchers
from orchestrator.runs.control import systemd_units
from orchestrator.runs.launchers import launch_plan
from orchestrator.runs.run_record import environment
from tests import builders

PYTHON = "/opt/orchestrator/bin/python"
WRAPPER = [PYTHON, "-P", "-m", "orchestrator.trainer.supervision.rank_wrapper", "/shared/runs/resnet20-mnist-1"]
HEAD, WORKER = "10.0.0.10", "10.0.0.11"


def layout(launcher: str, nodes: int = 2, slots: int = 1, **changes: Any) -> Layout:
    values = {"launcher": launcher, "np": nodes * slots, **changes}
    files = launchers.files(builders.cluster(nodes=nodes, slots=slots), builders.run(**values))
    values = json.loads(files["launch.json"])
    started = {host: [Process(*process) for process in each] for host, each in values.pop("processes").items()}
    return Layout(processes=started, **values)


def test_plain_starts_one_wrapper_per_slot() -> None:
    placement = layout("plain", slots=2)
    assert placement.ranks == [HEAD, HEAD, WORKER, WORKER]
    assert placement.processes == {
        HEAD: [Process(WRAPPER, 0), Process(WRAPPER, 1)],
        WORKER: [Process(WRAPPER, 2), Process(WRAPPER, 3)],
    }
    assert not placement.has_leader


def test_fewer_ranks_than_slots_fill_the_first_hosts() -> None:
    placement = layout("plain", slots=2, np=3)
    assert placement.slots == {HEAD: 2, WORKER: 1}
    assert placement.ranks == [HEAD, HEAD, WORKER]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="nodes have Python 3.11 or newer")
@pytest.mark.parametrize(
    "name", ["supervise", "horovodrun", "node_launcher", "node_agent", "rank_wrapper", "ray_nodes"]
)
def test_files_beside_the_script_are_not_taken_for_this_program(tmp_path: Path, name: str) -> None:
    for module in ("orchestrator", "signal"):
        (tmp_path / f"{module}.py").write_text("print('a file of the user')")
    argv = [sys.executable, *launch_plan.program(name)[1:]]
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout == ""
    assert f"supervision/{name}.py" in ended.stderr  # it was executed, and misses its arguments


def test_every_program_beside_the_script_is_started_so() -> None:
    runs = [builders.run(launcher=name) for name in launchers.LAUNCHERS]
    files = [text for run in runs for text in launchers.files(builders.cluster(), run).values()]
    for text in (*files, json.dumps(systemd_units.unit_command(builders.cluster(), runs[0]))):
        assert text.count('"-m", "orchestrator.') == text.count('"-P", "-m", "orchestrator.')


@pytest.mark.parametrize("launcher", ["horovod", "mpirun"])
def test_launchers_with_their_own_connections_need_no_agent(launcher: str) -> None:
    placement = layout(launcher)
    assert (placement.ranks, placement.processes) == ([HEAD, WORKER], {})


def test_mpirun_passes_on_every_variable_of_a_run() -> None:
    run = builders.run(launcher="mpirun")
    words = json.loads(launchers.files(builders.cluster(), run)["command.json"])
    assert words[:6] == ["mpirun", "--tag-output", "-np", "2", "-H", f"{HEAD}:1,{WORKER}:1"]
    passed = {words[at + 1] for at, word in enumerate(words) if word == "-x"}
    assert passed == {*environment(run), "ORCHESTRATOR_PORT"}
    assert words[-5:] == WRAPPER


def test_torchrun_orders_hosts_like_its_rendezvous() -> None:
    placement = layout("torchrun", nodes=3, slots=2)
    assert list(placement.slots) == sorted(placement.slots)
    agents = {host: started[0].argv for host, started in placement.processes.items()}
    for host, words in agents.items():
        assert words[words.index("--rdzv-endpoint") + 1] == f"{HEAD}:{{port}}"
        assert f"is_host={int(host == HEAD)}," in words[words.index("--rdzv-conf") + 1]
        assert words[words.index("--local-addr") + 1] == host
        assert words[-11:] == ["--no-python", "env", "-u", "LOGLEVEL", "-u", "TORCH_CPP_LOG_LEVEL", *WRAPPER]


def test_text_order_of_addresses_decides_torchruns_ranks() -> None:
    plan = launchers.torchrun.plan(builders.run(), {"10.0.0.9": 2, "10.0.0.10": 1})
    assert plan.ranks == ["10.0.0.10", "10.0.0.9", "10.0.0.9"]


def test_ray_runs_the_script_once_and_a_daemon_on_every_host() -> None:
    placement = layout("ray")
    assert placement.ranks == [HEAD]
    assert placement.has_leader
    daemon, driver = placement.processes[HEAD]
    assert (daemon.rank, driver.rank) == (None, 0)
    assert driver.argv[-5:] == WRAPPER
    assert daemon.argv[daemon.argv.index("--dashboard-host") + 1] == "127.0.0.1"
    (joining,) = placement.processes[WORKER]
    assert joining.argv[joining.argv.index("--address") + 1] == f"{HEAD}:{{port}}"


def test_rays_workers_have_the_python_of_the_packages_of_the_run() -> None:
    for started in layout("ray").processes.values():
        assert started[0].argv[:4] == ["python", "-m", "ray.scripts.scripts", "start"]


def test_rays_sockets_have_short_paths_for_any_run() -> None:
    run = builders.run().model_copy(update={"id": "mobilenet_v2-fashion_mnist-20261124-161848-f615"})
    words = launchers.ray.plan(run, {HEAD: 1}).processes[HEAD][0].argv
    directory = words[words.index("--temp-dir") + 1]
    assert len(f"{directory}/session_2026-11-24_16-18-51_067379_1234567/sockets/plasma_store") <= 107


def test_ray_on_one_slot_ends_with_the_script() -> None:
    plan = launchers.ray.plan(builders.run(), {HEAD: 1})
    assert Layout({HEAD: 1}, plan.ranks, "eth0", 1, 60.0, plan.processes).has_leader


def test_tensorflow_without_parameter_servers_has_workers_only() -> None:
    placement = layout("tensorflow")
    assert (placement.ranks, placement.roles) == ([HEAD, WORKER], [])
    assert not placement.has_leader


def test_parameter_servers_come_in_addition_to_a_worker_per_slot() -> None:
    placement = layout("tensorflow", parameter_servers=3)
    assert placement.roles == ["chief", "worker", "worker", "ps", "ps", "ps"]
    assert placement.ranks == [HEAD, HEAD, WORKER, WORKER, HEAD, WORKER]
    assert placement.has_leader
    assert {host: [process.rank for process in started] for host, started in placement.processes.items()} == {
        HEAD: [0, 1, 4],
        WORKER: [2, 3, 5],
    }


def on_gpus(launcher: str, gpus: int, slots: int, **changes: Any) -> Layout:
    """Return the layout of a script on two nodes with GPUs."""
    cluster = builders.cluster(nodes=2, slots=slots, gpus=gpus)
    return launchers.layout(cluster, builders.run(launcher=launcher, np=2 * slots, **changes))


def test_only_workers_of_tensorflow_divide_gpus() -> None:
    assert on_gpus("tensorflow", gpus=4, slots=2).gpus == {HEAD: 4, WORKER: 4}
    assert on_gpus("tensorflow", gpus=4, slots=2, parameter_servers=1).gpus == {HEAD: 4, WORKER: 4}
    assert on_gpus("plain", gpus=4, slots=2).gpus is None
    assert layout("tensorflow").gpus is None


def test_ray_takes_its_interface_from_the_agent_not_from_arguments() -> None:
    words = [word for started in layout("ray").processes.values() for process in started for word in process.argv]
    assert [word for word in words if "IFNAME" in word] == []
