"""One story, in order, through the installed command: every promise of a cluster.

What is marked `everywhere` holds with any provider; the rest is about nodes that are containers on this machine.
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
    """The results of a run that nobody disturbs."""
    return cli.json("train", site.model, *ON_MNIST, *site.extent)


@everywhere
def test_deploy_makes_two_nodes_that_take_keys_only(cli: Cli, site: Site) -> None:
    deployment = cli.json("deploy", "--nodes", "2")
    assert list(deployment["cluster"]["nodes"]) == [HEAD, WORKER]
    assert site.nodes() == [HEAD, WORKER]
    head = deployment["cluster"]["nodes"][HEAD]
    address = head["public_address"] or head["private_address"]
    options = [f"-o{key}" for key in ("BatchMode=yes", "PubkeyAuthentication=no", "StrictHostKeyChecking=no",
                                      "UserKnownHostsFile=/dev/null")]  # fmt: skip
    refused = subprocess.run(
        ["ssh", *options, f"orchestrator@{address}", "true"], capture_output=True, text=True, check=False
    )
    assert "Permission denied (publickey)" in refused.stderr


def test_nodes_share_the_cores_and_the_memory_of_this_machine(cli: Cli) -> None:
    for node in (HEAD, WORKER):
        limits = docker("inspect", "--format", "{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}}", node)[0]
        machine = docker("info", "--format", "{{.NCPU}} {{.MemTotal}}")[0]
        (nano, memory), (cores, total) = (map(int, words.split()) for words in (limits, machine))
        assert nano == cores * 10**9 // 2
        assert memory == pytest.approx(0.45 * total, rel=0.001)


@everywhere
def test_a_second_deploy_changes_nothing(cli: Cli) -> None:
    before = cli.json("status")["cluster"]
    second = cli.json("deploy", "--nodes", "2")
    assert second["changed"] == {HEAD: 0, WORKER: 0}
    assert second["cluster"] == before


def test_a_deploy_at_the_same_time_is_refused_with_the_holder(cli: Cli) -> None:
    first = cli.start("deploy")
    lock = cli.state / "orchestrator" / "e2e" / "lock"
    wait_for("the lock", lambda: f"pid {first.pid} " in lock.read_text())
    assert f"locked by pid {first.pid}" in cli("deploy", code=1).stderr
    assert first.wait() == 0, first.stdout and first.stdout.read()


@everywhere
def test_status_shows_every_node_healthy(cli: Cli) -> None:
    status = cli.json("status")
    assert {name: all(check["ok"] for check in checks) for name, checks in status["health"].items()} == {
        HEAD: True,
        WORKER: True,
    }
    assert status["cluster"]["nodes"][HEAD]["slots"] == 1


def test_nodes_take_their_own_names_for_a_loopback_address_as_debian_does(cli: Cli) -> None:
    for node in (HEAD, WORKER):
        docker("exec", node, "sh", "-c", f"hosts=$(cat /etc/hosts); echo '127.0.1.1 {node}\n'\"$hosts\" > /etc/hosts")
        assert docker("exec", node, "getent", "hosts", node)[0].split()[0] == "127.0.1.1"


@everywhere
def test_from_outside_the_nodes_network_nothing_answers_but_ssh(cli: Cli, site: Site) -> None:
    """Of all ports at which anything on the head listens: Prometheus and Alertmanager among them."""
    head = cli.json("status")["cluster"]["nodes"][HEAD]
    listening = cli("ssh", HEAD, "--", "ss", "-ltnH").stdout.splitlines()
    ports = sorted({int(line.split()[3].rpartition(":")[2]) for line in listening})
    assert {22, 9090, 9093, 9100} <= set(ports)
    assert site.answering(head, ports) == list(site.entrances)


@everywhere
def test_check_proves_the_allreduce_on_every_rank(cli: Cli) -> None:
    for controller in ("gloo", "mpi"):
        check = cli.json("check", "--controller", controller)
        assert [(r["host"], r["allreduce_sum"]) for r in check["ranks"]] == [(HEAD, 3.0), (WORKER, 3.0)]
        assert all(size["latency_seconds"] > 0 for size in check["sizes"])
        assert check["sizes"][-1]["bus_bandwidth"] > check["sizes"][0]["bus_bandwidth"]


@everywhere
def test_train_reaches_the_known_accuracy_on_two_nodes(site: Site, trained: Any) -> None:
    results, last = trained, trained["epochs"][-1]
    assert results["world"] == {"size": 2, "hosts": [HEAD, WORKER]}
    assert last["test"]["top1"] >= site.accuracy
    assert {epoch["test"]["images"] for epoch in results["epochs"]} == {1000}
    assert last["train"]["images"] == last["steps"] // last["epoch"] * results["effective_batch_size"]
    assert f"--{results['ended']}" == site.extent[0]
    assert (last["epoch"] if results["ended"] == "epochs" else last["steps"]) == int(site.extent[1])
    assert math.isfinite(last["train"]["loss"])
    assert last["images_per_second"] == sum(last["images_per_second_per_rank"])
    assert all(re.fullmatch("[0-9a-f]{64}", epoch["weights_sha256"]) for epoch in results["epochs"])


@everywhere
def test_results_stay_with_their_table_and_their_checkpoint(cli: Cli, site: Site) -> None:
    run = cli.json("runs")[-1]
    assert (run["state"], run["np"]) == ("finished", 2)
    directory = cli.state / "orchestrator" / "e2e" / "runs" / run["id"]
    epochs = int(site.extent[1]) if site.extent[0] == "--epochs" else 1
    assert len((directory / "results.csv").read_text().splitlines()) == 1 + epochs
    assert len(list((directory / "checkpoints").glob(f"epoch-{epochs:04}*/state.index"))) == 1
    assert cli.json("results", run["id"])["run"] == run["id"]


def test_a_run_that_is_done_is_not_resumed(cli: Cli) -> None:
    done = cli.json("runs")[-1]["id"]
    assert "train.epochs: 2: run" in cli("train", "--resume", done, code=2).stderr


def test_the_same_seed_gives_the_same_weights(cli: Cli) -> None:
    lenet = ("train", "lenet", *ON_MNIST)
    runs = [cli.json(*lenet, "--steps", "5", "--seed", "7") for _ in range(2)]
    assert [run["epochs"][0]["weights_sha256"] for run in runs] == [runs[0]["epochs"][0]["weights_sha256"]] * 2
    assert (runs[0]["ended"], runs[0]["epochs"][0]["steps"]) == ("steps", 5)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("resnet50", ("--precision", "bfloat16", "--fp16-allreduce", "--image-size", "64")),
        ("lenet", ("--controller", "mpi")),
        ("resnet20", ("--precision", "float16")),  # which a CPU computes slowly
    ],
)
def test_every_model_trains_and_so_does_every_precision(cli: Cli, model: str, options: tuple[str, ...]) -> None:
    results = cli.json("train", model, "--dataset", "synthetic", "--steps", "2", "--batch-size", "2", *options)
    assert (results["ended"], results["epochs"][-1]["steps"]) == ("steps", 2)
    assert math.isfinite(results["epochs"][-1]["train"]["loss"])


def test_cifar10_is_read_as_it_is_published_and_behind_links(cli: Cli, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    for path in [*samples.cifar(tmp_path / "cifar", train=64, test=20).iterdir()]:
        (links / path.name).symlink_to(path.rename(tmp_path / f"elsewhere-{path.name}"))
    results = cli.json("train", "resnet20", "--dataset", "cifar10", "--data", str(links), "--epochs", "1")
    assert [results["epochs"][0][split]["images"] for split in ("train", "test")] == [64, 20]


def test_max_time_ends_a_run_and_keeps_what_it_gave(cli: Cli) -> None:
    results = cli.json("train", "lenet", "--dataset", "synthetic", "--epochs", "1000", "--max-time", "20s")
    assert results["ended"] == "max-time"
    assert results["epochs"][-1]["train"]["images"] > 0


def test_until_ends_a_run_with_the_epoch_that_reaches_the_accuracy(cli: Cli) -> None:
    results = cli.json("train", "lenet", *ON_MNIST, "--epochs", "20", "--until", "top1=0.95")
    reached = [epoch["test"]["top1"] >= 0.95 for epoch in results["epochs"]]
    assert (results["ended"], reached) == ("until", [False] * (len(reached) - 1) + [True])
    spent = sum(epoch["seconds"] + epoch["test_seconds"] for epoch in results["epochs"])
    assert results["time_to_accuracy"] == pytest.approx(spent)
    assert "has reached it" in cli("train", "--resume", results["run"], code=2).stderr
    more = cli.json("train", "--resume", results["run"], "--until", "top1=0.97")
    assert (more["ended"], more["epochs"][: len(reached)]) == ("until", results["epochs"])
    assert f"top-1 95.00%: reached after {spent:.1f} s" in cli("results", "--until", "top1=0.95").stdout


@everywhere
def test_a_script_runs_with_the_module_beside_it_and_its_arguments_as_they_were_given(cli: Cli) -> None:
    words = "$HOME %h \"é\" 'a  b' \\n ;*"
    for controller in ("gloo", "mpi"):
        script = ("python", str(SCRIPTS / "own_script.py"), "--factor", "2", "--words", words)
        printed = cli("run", "--controller", controller, "--", *script).stdout
        assert f"rank 0 of 2 greets: 6 {words}" in printed
        assert f"[rank 1] rank 1 of 2 greets: 6 {words}" in printed
        output = cli.state / "orchestrator" / "e2e" / "runs" / cli.json("runs")[-1]["id"] / "output"
        assert (output / "rank-1.txt").read_text() == "6\n"


def _line(lines: Iterator[str], words: str) -> str:
    """The first of ``lines`` that holds ``words``."""
    return next(line for line in lines if words in line)


@everywhere
@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_a_detached_run_is_followed_and_stopped_and_leaves_no_process(cli: Cli, controller: str) -> None:
    script = ("python", str(SCRIPTS / "waits.py"))
    run = cli("run", "--detach", "--controller", controller, "--", *script).stdout.strip()
    with cli.start("logs", "-f", run) as follower:
        assert follower.stdout
        _line(follower.stdout, "[rank 1] waiting")
        assert any("sleep 3600" in line for line in cli.processes(WORKER))
        assert "is using the cluster" in cli(*TRAIN, code=1).stderr
        assert "is using the cluster" in cli("deploy", "--nodes", "1", code=1).stderr
        assert "stopped" in cli("stop", run).stdout
        assert follower.wait(timeout=60 * cli.patience) == 0
    assert [cli.processes(node) for node in (HEAD, WORKER)] == [[], []]


def test_a_connection_that_breaks_is_made_anew_where_it_broke_off(cli: Cli) -> None:
    run = cli("run", "--detach", "--", "python", str(SCRIPTS / "waits.py")).stdout.strip()
    with cli.start("logs", "-f", run) as follower:
        assert follower.stdout
        before = [_line(follower.stdout, "waiting"), _line(follower.stdout, "waiting for 2 s")]
        docker("exec", HEAD, "pkill", "-f", "sshd: orchestrator@notty")
        after = [line for line, _ in zip(follower.stdout, range(8), strict=False)]
        cli("stop", run)
        assert follower.wait(timeout=60) == 0
    numbers = [int(line.split()[-2]) for line in [*before, *after] if line.startswith("waiting for")]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] >= 4


@everywhere
def test_a_run_whose_command_is_interrupted_goes_on(cli: Cli) -> None:
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
def test_a_node_that_shows_another_host_key_is_refused(cli: Cli) -> None:
    pinned = cli.state / "orchestrator" / "e2e" / "ssh" / "known_hosts"
    right = pinned.read_text()
    *heads, worker = right.splitlines()
    wrong = f"{worker.split()[0]} {heads[0].split(' ', 1)[1]}"
    pinned.write_text("\n".join([*heads, wrong, ""]))
    assert "does not match" in cli("status").stdout
    assert f"not healthy: {WORKER}" in cli(*TRAIN, code=1).stderr
    pinned.write_text(right)


@everywhere
def test_a_rank_that_raises_is_named_with_its_node_and_its_last_lines(cli: Cli) -> None:
    for controller in ("gloo", "mpi"):
        script = str(SCRIPTS / "raises_on_rank_1.py")
        message = cli("run", "--controller", controller, "--", "python", script, code=1).stderr
        assert f"rank 1 on {WORKER} ended with exit code 1" in message
        assert "ValueError: the moon is in the wrong house" in message
        assert [cli.processes(node) for node in (HEAD, WORKER)] == [[], []]


@everywhere
def test_a_worker_killed_during_training_ends_the_run_with_its_name(cli: Cli, site: Site) -> None:
    assert f"node {WORKER} stopped answering" in killed_while_training(cli, site, WORKER)
    assert cli.processes(HEAD) == []


@everywhere
def test_no_run_starts_on_a_broken_cluster(cli: Cli) -> None:
    message = cli(*TRAIN, code=1).stderr
    assert f"not healthy: {WORKER}" in message
    assert HEAD not in message.split("not healthy")[1].split("\n")[0]


@everywhere
def test_deploy_heals_a_killed_worker(cli: Cli) -> None:
    healed = cli.json("deploy")
    assert healed["changed"][WORKER] > 0
    assert len(cli.json("check")["ranks"]) == 2


def test_a_second_cluster_stands_beside_the_first(cli: Cli) -> None:
    (cli.state / "cluster.yaml").write_text("name: e2e-beside\nnodes: 1\nlocal:\n  memory: 2\n")
    cli("deploy", cluster="e2e-beside")
    assert list(cli.json("status", cluster="e2e-beside")["cluster"]["nodes"]) == ["e2e-beside-head"]
    limit = docker("inspect", "--format", "{{.HostConfig.Memory}}", "e2e-beside-head")
    assert limit == [str(2 << 30)]
    (cli.state / "cluster.yaml").unlink()
    assert "0 left" in cli("teardown", cluster="e2e-beside").stdout
    assert list(cli.json("status")["cluster"]["nodes"]) == [HEAD, WORKER]


@everywhere
def test_teardown_leaves_nothing_but_the_results(cli: Cli, site: Site) -> None:
    runs, before = cli.json("runs"), site.left()
    receipt = cli.json("teardown")
    assert len(receipt["made"]) == len(before) > 0
    assert HEAD in [resource["name"] for resource in receipt["made"]]
    assert receipt["left"] == []
    assert site.left() == []
    assert [run["id"] for run in cli.json("runs")] == [run["id"] for run in runs]
    assert cli.json("results", next(r["id"] for r in runs if r["id"].startswith(f"{site.model}-mnist")))["epochs"]


@everywhere
def test_a_second_teardown_finds_nothing_to_do(cli: Cli) -> None:
    assert "0 made, 0 gone, 0 left" in cli("teardown").stdout
    assert "not deployed" in cli("status", code=1).stderr
