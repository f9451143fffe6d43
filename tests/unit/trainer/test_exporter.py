"""The exporter as a real process with real snapshots, scraped over HTTP."""

import ast
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.trainer.telemetry import exporter
from orchestrator.trainer.telemetry.recorder import Plan, Recorder
from orchestrator.trainer.telemetry.snapshots import Snapshot
from tests import samples

REAL, ON_STAND_IN = "orchestrator.trainer.telemetry.exporter", "tests.stand_ins.nvml_stand_in"
OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"  # as Prometheus 2.42 asks
Serve = Callable[..., "Served"]


class Served:
    """A running exporter."""

    def __init__(self, module: str, directory: Path, *arguments: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        command = [sys.executable, "-m", module, "--listen", self.address, "--snapshots", str(directory), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                self.scrape()
                return
            except URLError:
                time.sleep(0.05)
        raise AssertionError(self.process.communicate())

    def scrape(self, accept: str = "") -> str:
        request = Request(f"http://{self.address}/metrics", headers={"Accept": accept} if accept else {})
        with urlopen(request, timeout=10) as answer:
            return str(answer.read().decode())

    def samples(self) -> list[tuple[str, str]]:
        """Return (name, rank) of all served samples."""
        families = text_string_to_metric_families(self.scrape())
        return [(sample.name, sample.labels.get("rank", "")) for family in families for sample in family.samples]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    exporters = []

    def start(*arguments: str, module: str = REAL) -> Served:
        exporters.append(Served(module, tmp_path, *arguments))
        return exporters[-1]

    yield start
    for each in exporters:
        each.end()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def recorder(directory: Path, rank: int) -> Recorder:
    return Recorder(samples.train_config(), Plan(rank, 2, 32, 2, 10, 1000), directory)


def test_nothing_is_exported_without_ranks(serve: Serve) -> None:
    assert serve().scrape() == ""


def test_ranks_of_a_node_share_one_family_per_metric(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    with recorder(tmp_path, 0), recorder(tmp_path, 1):
        text = served.scrape()
        assert text.count("# TYPE orchestrator_training_images_total counter") == 1
        ranks = {rank for name, rank in served.samples() if name == "orchestrator_training_world_size"}
        assert ranks == {"0", "1"}
    assert served.scrape() == ""


def test_last_scores_are_exported_after_the_rank_ended(serve: Serve, tmp_path: Path) -> None:
    with recorder(tmp_path, 0) as record:
        record.scores("test", 0.5, 0.9)
    names = {"orchestrator_training_loss", "orchestrator_training_top1_ratio"}
    assert {name for name, _ in serve().samples()} == names


def test_response_is_in_the_format_that_prometheus_requests(serve: Serve, tmp_path: Path) -> None:
    with recorder(tmp_path, 0):
        assert serve().scrape(OPEN_METRICS).endswith("# EOF\n")


@pytest.mark.parametrize(
    "content",
    [
        b'orchestrator_training_epoch{run="half',
        b"\xff\xfe",
        b"orchestrator_training_epoch{} {} {}\n",
        b'# TYPE orchestrator_training_epoch gauge\norchestrator_training_epoch{run="a"} many\n',
        b'# TYPE orchestrator_training_epoch gauge\norchestrator_training_epoch{"a b"="", a_b=""} 1\n',
        b"",
    ],
)
def test_file_that_is_no_snapshot_is_ignored(serve: Serve, tmp_path: Path, content: bytes) -> None:
    odd = Snapshot(tmp_path, "odd", 0)
    odd.write(content)
    with recorder(tmp_path, 1):
        assert {rank for _, rank in serve().samples()} == {"1"}
    odd.remove()


def test_metrics_outside_the_table_are_dropped() -> None:
    name = b"orchestrator_training_epoch"
    assert exporter.read(b"# TYPE node_load1 gauge\nnode_load1 7\n") == []
    assert exporter.read(b"# TYPE %s untyped\n%s 1\n" % (name, name)) == []
    assert [family.type for family in exporter.read(b"# TYPE %s gauge\n%s 1\n" % (name, name))] == ["gauge"]


def test_time_in_a_snapshot_is_dropped() -> None:
    name = b"orchestrator_training_epoch"
    [family] = exporter.read(b"# TYPE %s gauge\n%s 1 1e999\n" % (name, name))
    assert [(sample.value, sample.timestamp) for sample in family.samples] == [(1.0, None)]


def test_interface_with_the_private_address_is_named(serve: Serve) -> None:
    text = serve("--interface-of", "127.0.0.1").scrape()
    assert 'orchestrator_node_training_interface_info{interface="lo"} 1.0\n' in text


def test_configured_interface_is_named(serve: Serve) -> None:
    text = serve("--interface", "ib0").scrape()
    assert 'orchestrator_node_training_interface_info{interface="ib0"} 1.0\n' in text


def test_address_without_an_interface_is_no_error(serve: Serve) -> None:
    assert serve("--interface-of", "192.0.2.1").scrape() == ""


def test_gpus_and_ranks_are_exported(serve: Serve, tmp_path: Path) -> None:
    with recorder(tmp_path, 0):
        text = serve("--nvml", module=ON_STAND_IN).scrape()
    assert 'DCGM_FI_DEV_GPU_UTIL{DCGM_FI_DRIVER_VERSION="550.90.07",UUID="GPU-stand-in-1000",device="nvidia0"' in text
    assert "orchestrator_training_world_size" in text


def test_ranks_are_exported_without_a_gpu_driver(serve: Serve, tmp_path: Path) -> None:
    with recorder(tmp_path, 0):
        text = serve("--nvml").scrape()  # the real NVML, if this machine has none
    assert "orchestrator_training_world_size" in text


@pytest.mark.parametrize(
    ("listen", "output"),
    [
        ("192.0.2.1:9401", "--listen 192.0.2.1:9401: "),
        ("9401", "--listen 9401: is not ADDRESS:PORT, as in 10.0.0.10:9401"),
        ("127.0.0.1:http", "--listen 127.0.0.1:http: is not ADDRESS:PORT, as in 10.0.0.10:9401"),
    ],
)
def test_unusable_listen_address_ends_with_one_line(listen: str, output: str) -> None:
    command = [sys.executable, "-m", REAL, "--listen", listen]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 1
    (line,) = completed.stderr.splitlines()
    assert line.startswith(output)


def test_exporter_takes_little_memory(serve: Serve, tmp_path: Path) -> None:
    served = serve("--nvml", "--interface-of", "127.0.0.1", module=ON_STAND_IN)
    with recorder(tmp_path, 0), recorder(tmp_path, 1):
        for _ in range(20):
            served.scrape()
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert kilobytes < 40_000


def test_exporter_imports_no_tensorflow() -> None:
    code = "import sys; import orchestrator.trainer.telemetry.exporter; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names = {name.partition(".")[0] for name in ast.literal_eval(loaded)}
    assert names & {"tensorflow", "keras", "horovod", "numpy", "pydantic", "pynvml"} == set()
