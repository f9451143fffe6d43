"""Requirements for every launcher: the environment of ranks, and how runs fail, are killed and are stopped."""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.command import Cli, docker, wait_for

SCRIPTS = Path(__file__).parent / "scripts"
KILLED_SECONDS = 60.0  # from the kill of a rank to the end of the run
SERVICES = ("orchestrator.trainer.telemetry.exporter", "jupyterlab")  # modules that run on nodes without a run


class Nodes:
    """The two nodes of a local cluster, on which runs are started by one ``launcher``."""

    def __init__(self, cli: Cli, cluster: str, launcher: str) -> None:
        self.cli, self.cluster = cli, cluster
        self.options = ("--launcher", launcher)
        self.head, self.worker = f"{cluster}-head", f"{cluster}-worker-0"

    def run(self, script: Path, *options: str, arguments: Sequence[str] = (), code: int = 0) -> Any:
        return self.cli(
            "run", *self.options, *options, "--", "python", str(script), *arguments, cluster=self.cluster, code=code
        )

    def try_run(self, script: Path) -> "subprocess.CompletedProcess[str]":
        """Run a script that may fail."""
        words = ("run", *self.options, "--", "python", str(script))
        with self.cli.start(*words, cluster=self.cluster) as run:
            output = run.communicate(timeout=300)[0]
        return subprocess.CompletedProcess(words, run.returncode, output, output)

    def processes_of_runs(self) -> list[str]:
        """List processes of runs on all nodes, after up to 5 s for those that are about to end."""
        listing = ["ps", "-u", "orchestrator", "-o", "args="]
        services = [f"/opt/orchestrator/bin/python -m {name}" for name in SERVICES]
        ignored = ("ps -u", *services, "(sd-pam)", "/lib/systemd/systemd")

        def list_processes() -> list[str]:
            lines = [line for node in (self.head, self.worker) for line in docker("exec", node, "sh", "-c",
                     f"{' '.join(listing)} || true")]  # fmt: skip
            return [line for line in lines if not line.startswith((*ignored, "sshd:"))]

        deadline = time.monotonic() + 5
        while list_processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        return list_processes()


def environments(nodes: Nodes) -> list[dict[str, str]]:
    """Return the environment of every rank as a script sees it, in the order of ranks."""
    output = nodes.run(SCRIPTS / "environment.py").stdout
    variables = [json.loads(line[line.index("{") :]) for line in output.splitlines() if '"WORLD_SIZE"' in line]
    return sorted(variables, key=lambda environment: int(environment["RANK"]))


def require_environment(nodes: Nodes) -> None:
    """Require that every rank has its variables for Horovod, PyTorch and tf.distribute."""
    ranks = environments(nodes)
    assert [rank["RANK"] for rank in ranks] == ["0", "1"]
    for number, rank in enumerate(ranks):
        assert (rank["WORLD_SIZE"], rank["LOCAL_RANK"], rank["LOCAL_WORLD_SIZE"]) == ("2", "0", "1")
        assert (rank["NODE_RANK"], rank["HOROVOD_RANK"], rank["HOROVOD_SIZE"]) == (str(number), str(number), "2")
        assert rank["MASTER_ADDR"] == ranks[0]["MASTER_ADDR"]
        assert rank["MASTER_PORT"] == ranks[0]["MASTER_PORT"]
        assert (rank["GLOO_SOCKET_IFNAME"], rank["NCCL_SOCKET_IFNAME"]) == ("eth0", "=eth0")
        assert int(rank["OMP_NUM_THREADS"]) >= 1
        assert json.loads(rank["TF_CONFIG"])["task"] == {"type": "worker", "index": number}


def require_failure_named(nodes: Nodes) -> None:
    """Require that a rank that raises is named with its node and last lines, and that no process remains."""
    message = nodes.run(SCRIPTS / "raises.py", code=1).stderr
    assert f"rank 1 on {nodes.worker} ended with exit code 1" in message
    assert "ValueError: the moon is in the wrong house" in message
    assert nodes.processes_of_runs() == []


def require_killed_rank_named(nodes: Nodes) -> None:
    """Require that a killed rank is named within a minute, and that no process remains."""
    words = ("run", *nodes.options, "--", "python", str(SCRIPTS / "waits.py"))
    with nodes.cli.start(*words, cluster=nodes.cluster) as run:
        assert run.stdout
        next(line for line in run.stdout if line.startswith("[rank 1] waiting"))
        docker("exec", nodes.worker, "pkill", "-9", "-f", "^python waits.py")
        killed = time.monotonic()
        output = run.communicate(timeout=KILLED_SECONDS)[0]
        assert run.returncode == 1, output
        assert time.monotonic() - killed < KILLED_SECONDS
    assert f"rank 1 on {nodes.worker} ended with exit code 137" in output
    assert nodes.processes_of_runs() == []


def require_stopped(nodes: Nodes) -> None:
    """Require that no process of a stopped run remains."""
    words = ("run", "--detach", *nodes.options, "--", "python", str(SCRIPTS / "waits.py"))
    name = nodes.cli(*words, cluster=nodes.cluster).stdout.strip()
    wait_for("ranks", lambda: "[rank 1] waiting" in nodes.cli("logs", name, cluster=nodes.cluster).stdout)
    assert "stopped" in nodes.cli("stop", name, cluster=nodes.cluster).stdout
    assert nodes.processes_of_runs() == []


REQUIREMENTS = (require_environment, require_failure_named, require_killed_rank_named, require_stopped)
