"""One story, in order, through the installed command: every feature of a cluster.

Tests marked `everywhere` hold with any provider; the others need nodes that are containers on this machine.
"""

import math
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import samples
from tests.e2e.command import Cli, docker, wait_for
from tests.e2e.sites import Site
from tests.e2e.training import HEAD, ON_MNIST, TRAIN, WORKER, killed_while_training

SCRIPTS = Path(__file__).parent / "scripts"
everywhere = pytest.mark.everywhere


@pytest.fixture(scope="module")
def trained(cli: Cli, site: Site) -> Any:
    """Return the results of a run without interruption."""
    return cli.json("train", site.model, *ON_MNIST, *site.train_options)


@everywhere
def test_deploy_creates_two_nodes_that_accept_keys_only(cli: Cli, site: Site) -> None:
    deployment = cli.json("deploy", "--nodes", "2")
    assert list(deployment["cluster"]["nodes"]) == [HEAD, WORKER]
    assert site.list_nodes() == [HEAD, WORKER]
    head = deployment["cluster"]["nodes"][HEAD]
    address = head["public_address"] or head["private_address"]
    options = [f"-o{key}" for key in ("BatchMode=yes", "PubkeyAuthentication=no", "StrictHostKeyChecking=no",
                                      "UserKnownHostsFile=/dev/null")]  # fmt: skip
    refused = subprocess.run(
        ["ssh", *options, f"orchestrator@{address}", "true"], capture_output=True, text=True, check=False
    )
    assert "Permission denied (publickey)" in refused.stderr


def test_nodes_share_cores_and_memory_of_this_machine(cli: Cli) -> None:
    for node in (HEAD, WORKER):
        limits = docker("inspect", "--format", "{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}}", node)[0]
        machine = docker("info", "--format", "{{.NCPU}} {{.MemTotal}}")[0]
        (nano, memory), (cores, total) = (map(int, words.split()) for words in (limits, machine))
        assert nano == cores * 10**9 // 2
        assert memory == pytest.approx(0.45 * total, rel=0.001)


@everywhere
def test_second_deploy_changes_nothing(cli: Cli) -> None:
    before = cli.json("status")["cluster"]
    second = cli.json("deploy", "--nodes", "2")
    assert second["changed"] == {HEAD: 0, WORKER: 0}
    assert second["cluster"] == before


def test_concurrent_deploy_is_refused_with_the_lock_holder(cli: Cli) -> None:
    first = cli.start("deploy")
    lock = cli.state / "orchestrator" / "e2e" / "lock"
    wait_for("the lock", lambda: f"pid {first.pid} " in lock.read_text())
    first.send_signal(signal.SIGSTOP)  # an unchanged deploy may end before the second one starts
    try:
        assert f"locked by pid {first.pid}" in cli("deploy", code=1).stderr
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait() == 0, first.stdout and first.stdout.read()


@everywhere
def test_status_shows_every_node_healthy(cli: Cli) -> None:
    status = cli.json("status")
    assert {name: all(check["ok"] for check in checks) for name, checks in status["health"].items()} == {
        HEAD: True,
        WORKER: True,
    }
    assert status["cluster"]["nodes"][HEAD]["slots"] == 1


def test_nodes_resolve_their_own_name_to_loopback_like_debian(cli: Cli) -> None:
    for node in (HEAD, WORKER):
        docker("exec", node, "sh", "-c", f"hosts=$(cat /etc/hosts); echo '127.0.1.1 {node}\n'\"$hosts\" > /etc/hosts")
        assert docker("exec", node, "getent", "hosts", node)[0].split()[0] == "127.0.1.1"


@everywhere
def test_only_ssh_is_reachable_from_outside_the_nodes_network(cli: Cli, site: Site) -> None:
    """Try every port at which the head listens, Prometheus and Alertmanager included."""
    head = cli.json("status")["cluster"]["nodes"][HEAD]
    listening = cli("ssh", HEAD, "--", "ss", "-ltnH").stdout.splitlines()
    ports = sorted({int(line.split()[3].rpartition(":")[2]) for line in listening})
    assert {22, 9090, 9093, 9100} <= set(ports)
    assert site.open_ports(head, ports) == list(site.public_ports)


@everywhere
def test_check_proves_allreduce_on_every_rank(cli: Cli) -> None:
    for controller in ("gloo", "mpi"):
        check = cli.json("check", "--controller", controller)
        assert [(r["host"], r["allreduce_sum"]) for r in check["ranks"]] == [(HEAD, 3.0), (WORKER, 3.0)]
        assert all(size["latency_seconds"] > 0 for size in check["sizes"])
        assert check["sizes"][-1]["bus_bandwidth"] > check["sizes"][0]["bus_bandwidth"]


@everywhere
def test_train_reaches_known_accuracy_on_two_nodes(site: Site, trained: Any) -> None:
    results, last = trained, trained["epochs"][-1]
    assert results["world"] == {"size": 2, "hosts": [HEAD, WORKER]}
    assert last["test"]["top1"] >= site.accuracy
    assert {epoch["test"]["images"] for epoch in results["epochs"]} == {1000}
    assert last["train"]["images"] == last["steps"] // last["epoch"] * results["effective_batch_size"]
    assert f"--{results['ended']}" == site.train_options[0]
    assert (last["epoch"] if results["ended"] == "epochs" else last["steps"]) == int(site.train_options[1])
    assert math.isfinite(last["train"]["loss"])
    assert last["images_per_second"] == sum(last["images_per_second_per_rank"])
    assert all(re.fullmatch("[0-9a-f]{64}", epoch["weights_sha256"]) for epoch in results["epochs"])


@everywhere
def test_run_directory_has_results_table_and_checkpoint(cli: Cli, site: Site) -> None:
    run = cli.json("runs")[-1]
    assert (run["state"], run["np"]) == ("finished", 2)
    directory = cli.state / "orchestrator" / "e2e" / "runs" / run["id"]
    epochs = int(site.train_options[1]) if site.train_options[0] == "--epochs" else 1
    assert len((directory / "results.csv").read_text().splitlines()) == 1 + epochs
    assert len(list((directory / "checkpoints").glob(f"epoch-{epochs:04}*/state.index"))) == 1
    assert cli.json("results", run["id"])["run"] == run["id"]


def test_finished_run_is_not_resumed(cli: Cli) -> None:
    finished = cli.json("runs")[-1]["id"]
    assert "train.epochs: 2: run" in cli("train", "--resume", finished, code=2).stderr


def test_same_seed_gives_same_weights(cli: Cli) -> None:
    lenet = ("train", "lenet", *ON_MNIST)
    runs = [cli.json(*lenet, "--steps", "5", "--seed", "7") for _ in range(2)]
    assert [run["epochs"][0]["weights_sha256"] for run in runs] == [runs[0]["epochs"][0]["weights_sha256"]] * 2
    assert (runs[0]["ended"], runs[0]["epochs"][0]["steps"]) == ("steps", 5)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("resnet50", ("--precision", "bfloat16", "--fp16-allreduce", "--image-size", "64")),
        ("lenet", ("--controller", "mpi")),
        ("resnet20", ("--precision", "float16")),  # slow on a CPU
    ],
)
def test_every_model_and_precision_trains(cli: Cli, model: str, options: tuple[str, ...]) -> None:
    results = cli.json("train", model, "--dataset", "synthetic", "--steps", "2", "--batch-size", "2", *options)
    assert (results["ended"], results["epochs"][-1]["steps"]) == ("steps", 2)
    assert math.isfinite(results["epochs"][-1]["train"]["loss"])


def test_cifar10_is_read_as_published_and_through_links(cli: Cli, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    for path in [*samples.cifar(tmp_path / "cifar", train=64, test=20).iterdir()]:
        (links / path.name).symlink_to(path.rename(tmp_path / f"elsewhere-{path.name}"))
    results = cli.json("train", "resnet20", "--dataset", "cifar10", "--data", str(links), "--epochs", "1")
    assert [results["epochs"][0][split]["images"] for split in ("train", "test")] == [64, 20]


def test_max_time_ends_run_and_keeps_results(cli: Cli) -> None:
    results = cli.json("train", "lenet", "--dataset", "synthetic", "--epochs", "1000", "--max-time", "20s")
    assert results["ended"] == "max-time"
    assert results["epochs"][-1]["train"]["images"] > 0


def test_until_ends_run_after_epoch_that_reaches_accuracy(cli: Cli) -> None:
    results = cli.json("train", "lenet", *ON_MNIST, "--epochs", "20", "--until", "top1=0.95")
    reached = [epoch["test"]["top1"] >= 0.95 for epoch in results["epochs"]]
    assert (results["ended"], reached) == ("until", [False] * (len(reached) - 1) + [True])
    spent = sum(epoch["seconds"] + epoch["test_seconds"] for epoch in results["epochs"])
    assert results["time_to_accuracy"] == pytest.approx(spent)
    assert "has reached it" in cli("train", "--resume", results["run"], code=2).stderr
    higher = results["epochs"][-1]["test"]["top1"] + 0.002  # the epoch that reaches a goal may pass it by far
    more = cli.json("train", "--resume", results["run"], "--until", f"top1={higher:.4f}", "--save-model")
    assert (more["ended"], more["epochs"][: len(reached)]) == ("until", results["epochs"])
    assert (Path(more["saved_model"]) / "saved_model.pb").stat().st_size > 10_000
    assert f"top-1 95.00%: reached after {spent:.1f} s" in cli("results", "--until", "top1=0.95").stdout


@everywhere
def test_script_runs_with_its_module_and_unchanged_arguments(cli: Cli) -> None:
    words = "$HOME %h \"é\" 'a  b' \\n ;*"
    for controller in ("gloo", "mpi"):
        script = ("python", str(SCRIPTS / "own_script.py"), "--factor", "2", "--words", words)
        printed = cli("run", "--controller", controller, "--", *script).stdout
        assert f"rank 0 of 2 greets: 6 {words}" in printed
        assert f"[rank 1] rank 1 of 2 greets: 6 {words}" in printed
        output = cli.state / "orchestrator" / "e2e" / "runs" / cli.json("runs")[-1]["id"] / "output"
        assert (output / "rank-1.txt").read_text() == "6\n"


def _line(lines: Iterator[str], words: str) -> str:
    """Return the first line that contains ``words``."""
    return next(line for line in lines if words in line)


@everywhere
@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_detached_run_is_followed_and_stopped_without_processes(cli: Cli, controller: str) -> None:
    script = ("python", str(SCRIPTS / "waits.py"))
    run = cli("run", "--detach", "--controller", controller, "--", *script).stdout.strip()
    with cli.start("logs", "-f", run) as follower:
        assert follower.stdout
        _line(follower.stdout, "[rank 1] waiting")
        assert any("sleep 3600" in line for line in cli.processes(WORKER))
        assert "is using the cluster" in cli(*TRAIN, code=1).stderr
        assert "is using the cluster" in cli("deploy", "--nodes", "1", code=1).stderr
        assert "stopped" in cli("stop", run).stdout
        assert follower.wait(timeout=60 * cli.patience) == 1  # a stopped run did not finish
    assert [cli.processes(node) for node in (HEAD, WORKER)] == [[], []]


def test_broken_connection_continues_the_log_at_the_same_line(cli: Cli) -> None:
    run = cli("run", "--detach", "--", "python", str(SCRIPTS / "waits.py")).stdout.strip()
    with cli.start("logs", "-f", run) as follower:
        assert follower.stdout
        before = [_line(follower.stdout, "waiting"), _line(follower.stdout, "waiting for 2 s")]
        docker("exec", HEAD, "pkill", "-f", "sshd: orchestrator@notty")
        after = [line for line, _ in zip(follower.stdout, range(8), strict=False)]
        cli("stop", run)
        assert follower.wait(timeout=60) == 1
    numbers = [int(line.split()[-2]) for line in [*before, *after] if line.startswith("waiting for")]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] >= 4


def test_missing_log_is_an_error(cli: Cli) -> None:
    run = cli("run", "--detach", "--", "python", str(SCRIPTS / "waits.py")).stdout.strip()
    log = f"/shared/runs/{run}/log"
    docker("exec", HEAD, "mv", log, f"{log}.moved")
    assert f"{log}: No such file" in cli("logs", run, code=1).stderr
    docker("exec", HEAD, "mv", f"{log}.moved", log)
    assert "waiting" in cli("logs", run).stdout
    cli("stop", run)


@everywhere
def test_run_continues_after_its_command_is_interrupted(cli: Cli) -> None:
    with cli.start("run", "--", "python", str(SCRIPTS / "waits.py")) as command:
        assert command.stdout
        _line(command.stdout, "waiting")
        command.send_signal(signal.SIGINT)
        output = command.stdout.read()
        assert command.wait(60 * cli.patience) == 130, output
    assert "continues" in output
    assert cli.json("runs")[-1]["state"] == "running"
    cli("stop")
    assert cli.json("runs")[-1]["state"] == "stopped"


@everywhere
def test_node_with_another_host_key_is_refused(cli: Cli) -> None:
    pinned = cli.state / "orchestrator" / "e2e" / "ssh" / "known_hosts"
    correct = pinned.read_text()
    *heads, worker = correct.splitlines()
    wrong = f"{worker.split()[0]} {heads[0].split(' ', 1)[1]}"
    pinned.write_text("\n".join([*heads, wrong, ""]))
    assert "does not match" in cli("status").stdout
    assert f"not healthy: {WORKER}" in cli(*TRAIN, code=1).stderr
    pinned.write_text(correct)


@everywhere
def test_rank_that_raises_is_named_with_node_and_last_lines(cli: Cli) -> None:
    for controller in ("gloo", "mpi"):
        script = str(SCRIPTS / "raises_on_rank_1.py")
        message = cli("run", "--controller", controller, "--", "python", script, code=1).stderr
        # The other rank fails too. If it ends first, which happens on a busy machine, the launcher ends rank 1.
        assert re.search(f"rank 1 on {WORKER} (ended with exit code 1|raised an error)", message)
        assert "ValueError: the moon is in the wrong house" in message
        assert [cli.processes(node) for node in (HEAD, WORKER)] == [[], []]


@everywhere
def test_killed_worker_ends_training_with_its_name(cli: Cli, site: Site) -> None:
    assert f"node {WORKER} stopped answering" in killed_while_training(cli, site, WORKER)
    assert cli.processes(HEAD) == []


@everywhere
def test_no_run_starts_on_a_broken_cluster(cli: Cli) -> None:
    message = cli(*TRAIN, code=1).stderr
    assert f"not healthy: {WORKER}" in message
    assert HEAD not in message.split("not healthy")[1].split("\n")[0]


@everywhere
def test_deploy_replaces_a_killed_worker(cli: Cli) -> None:
    healed = cli.json("deploy")
    assert healed["changed"][WORKER] > 0
    assert len(cli.json("check")["ranks"]) == 2


def test_second_cluster_runs_next_to_the_first(cli: Cli) -> None:
    (cli.state / "cluster.yaml").write_text("name: e2e-second\nnodes: 1\nlocal:\n  memory: 2\n")
    cli("deploy", cluster="e2e-second")
    assert list(cli.json("status", cluster="e2e-second")["cluster"]["nodes"]) == ["e2e-second-head"]
    limit = docker("inspect", "--format", "{{.HostConfig.Memory}}", "e2e-second-head")
    assert limit == [str(2 << 30)]
    (cli.state / "cluster.yaml").unlink()
    assert "0 left" in cli("teardown", cluster="e2e-second").stdout
    assert list(cli.json("status")["cluster"]["nodes"]) == [HEAD, WORKER]


@everywhere
def test_teardown_leaves_only_results(cli: Cli, site: Site) -> None:
    runs, before = cli.json("runs"), site.list_resources()
    receipt = cli.json("teardown")
    assert len(receipt["made"]) == len(before) > 0
    assert HEAD in [resource["name"] for resource in receipt["made"]]
    assert receipt["left"] == []
    assert site.list_resources() == []
    assert [run["id"] for run in cli.json("runs")] == [run["id"] for run in runs]
    assert cli.json("results", next(r["id"] for r in runs if r["id"].startswith(f"{site.model}-mnist")))["epochs"]


@everywhere
def test_second_teardown_finds_nothing(cli: Cli) -> None:
    assert "0 made, 0 gone, 0 left" in cli("teardown").stdout
    assert "not deployed" in cli("status", code=1).stderr
