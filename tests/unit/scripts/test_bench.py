"""Results that benches compute from measurements, and their tables."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import __main__ as bench_main
from bench import harness, profile, roofline, scale, studies, train, train_comparisons, train_gpu, train_ours
from bench.harness import Bench, interleaved, timed
from bench.train_containers import Place
from bench.train_contestants import Sitting
from orchestrator import recipes
from tests import waiting


def test_every_other_round_is_reversed() -> None:
    clock = itertools.count()
    measured = interleaved({"a": lambda: next(clock), "b": lambda: next(clock)}, 3)
    assert measured == {"a": [0, 3, 4], "b": [1, 2, 5]}


def test_ratio_is_the_median_of_ratios_not_the_ratio_of_medians() -> None:
    row = harness.paired({"ours": [10.0, 20.0, 60.0], "theirs": [20.0, 10.0, 30.0]}, "ours", "theirs", "≥ 1.2")
    assert (row.measured, row.ratio) == ("20.0 images/s", "2.000")
    assert row.reference == "theirs, 20.0 images/s (0.500 2.000 2.000)"


def test_every_model_but_resnet50_has_a_row() -> None:
    assert sorted(work.model for work in (train_ours.RESNET50, *train_comparisons.MODELS)) == recipes.models()


def test_contestant_that_fails_costs_only_its_own_rows(capsys: pytest.CaptureFixture[str]) -> None:
    sitting, tries = Sitting(Place("", (0, 1), Path()), 2), itertools.count(1)

    def failing() -> float:
        next(tries)
        raise RuntimeError("python -m torch: exit code 1:\n    Traceback\n    ValueError: no compiler")

    measured = sitting.compare({"ours": lambda: 2.0, "torch": failing, "loop": lambda: 1.0})
    assert sitting.paired(measured, "ours", "loop").ratio == "2.000"
    reason = "torch: ValueError: no compiler"
    for pair in (("ours", "torch"), ("torch", "loop")):
        row = sitting.paired(measured, *pair)
        assert (row.ratio, row.reference) == ("not measured", reason)
    assert next(tries) == 2
    assert "Traceback" in capsys.readouterr().err


def test_every_network_is_a_comparison_whose_rows_are_written() -> None:
    networks = [work.model for work in train_comparisons.MODELS]
    assert list(train._select(["models", "lenet"], False)) == networks
    assert list(train._select(["models"], True)) == ["models"]
    assert list(train._select(["ranks", "lenet"], False)) == ["ranks", "lenet"]


def test_table_names_the_measured_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "OUTPUT", tmp_path)
    harness.write("training", [], 3, "a CPU", cores=1)
    assert (tmp_path / "training.md").read_text().startswith("1 cores, a CPU, median of 3 rounds\n")


def test_profile_names_the_part_outside_operations() -> None:
    page = profile.page({"seconds": 0.1, "operations": {"Conv2D": (60.0, 53.0), "Relu": (30.0, 49.0)}}, "resnet50")
    assert "| 60.0 | 60.0% | 53 | Conv2D |" in page
    assert "| 10.0 | 10.0% | | no operation" in page


def test_shortest_step_uses_the_fastest_convolutions() -> None:
    ms = {"forward": {"kernel": 2.0, "product": 1.0}, "weights": {"kernel": 3.0}}
    slower = {"forward": {"kernel": 2.5, "product": 2.5}, "weights": {"kernel": 4.0}}
    convolution = {"count": 2, "ms": ms, "from_memory_ms": slower}
    measured = {"convolutions": [convolution], "bytes": 4e6, "bandwidth": 1e9}
    assert roofline.least(measured) == {"forward": 2.0, "inputs": 0, "weights": 6.0, "rest": 4.0}
    assert roofline.least(measured, "from_memory_ms") == {"forward": 5.0, "inputs": 0, "weights": 8.0, "rest": 4.0}


def test_gpu_rates_are_compared_with_references_of_the_same_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("Horovod's example", "64", "200.0"), ("ours", "64", "500.0"), ("ours", "128", "failed")]
    lines = ["\t".join((who, "float32", batch, "no", rate, "90", "300", "9000")) for who, batch, rate in rows]
    (tmp_path / "results.tsv").write_text("\n".join(lines) + "\n")
    train_gpu.table(str(tmp_path / "results.tsv"))
    output = capsys.readouterr().out.splitlines()
    assert [line.split("|")[-2].strip() for line in itertools.islice(output, 2, None)] == ["1.00", "2.50", ""]


def program(path: Path, script: str) -> Path:
    """Write a shell script that can be executed."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_report_of_a_gpu_is_written_after_its_samples(tmp_path: Path) -> None:
    samples = "echo '#gpu pwr sm mem fb'; echo '0 300 90 20 9000'; exec sleep 60"
    program(tmp_path / "bin" / "nvidia-smi", f"case $1 in dmon) {samples} ;; *) echo 'a GPU, 24 GiB' ;; esac")
    python = program(
        tmp_path / "python",
        f'case "$*" in *train_gpu?table*) exec {sys.executable} "$@" ;; *) sleep 0.2; echo 100.0 ;; esac',
    )
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "PYTHON": str(python),
        "HOROVOD_SOURCE": str(tmp_path),  # without the example, which is not fetched
        "BENCH_OUTPUT": str(tmp_path),
    }
    argv = [str(harness.ROOT / "bench" / "gpu.sh"), "--batches", "64", "--precisions", "float16"]
    completed = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stderr
    assert "| ours | float16 | 64 | yes | 100.0 | 90 | 300 | 9000 |" in (tmp_path / "gpu.md").read_text()


def test_bench_does_not_deploy_the_users_own_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cluster.yaml").write_text("provider: openstack\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"cluster\.yaml: a bench would deploy its cluster"), harness.bench():
        pass


INTERRUPTED = """
import signal
from pathlib import Path
from bench import harness
signal.signal(signal.SIGINT, signal.default_int_handler)
harness.COMMAND = Path({command!r})
with harness.bench() as b:
    b.run("deploy")
"""


@pytest.mark.parametrize(
    ("number", "repeated", "message"),
    [
        (signal.SIGTERM, False, ""),
        (signal.SIGINT, False, "KeyboardInterrupt"),
        (signal.SIGINT, True, "orchestrator teardown --cluster bench"),
    ],
)
def test_interrupted_bench_removes_its_cluster_or_says_how(
    tmp_path: Path, number: signal.Signals, repeated: bool, message: str
) -> None:
    hanging = "*" if repeated else "deploy"
    command = program(
        tmp_path / "bin" / "orchestrator", f'echo >> "{tmp_path}/$1"; case $1 in {hanging}) exec sleep 60;; esac'
    )
    argv = [sys.executable, "-c", INTERRUPTED.format(command=str(command))]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, cwd=harness.ROOT, env=environment, stderr=subprocess.PIPE, text=True) as running:
        for step in ("deploy", "teardown")[: 1 + repeated]:
            assert waiting.until((tmp_path / step).exists)
            running.send_signal(number)
        errors = running.communicate(timeout=30)[1]
    assert (tmp_path / "teardown").exists()
    assert bool(list(tmp_path.glob("orchestrator-bench-*"))) == repeated
    assert message in errors


def written(path: Path) -> bool:
    """Return whether a stand-in has written its line: the file exists a moment sooner."""
    return path.exists() and path.read_text().endswith("\n")


IN_A_CONTAINER = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = {words}
runpy.run_module(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGTERM, ["bench.train", "--only", "ranks"]),
        (signal.SIGTERM, ["bench.train", "--only", "first-step"]),
        (signal.SIGTERM, ["bench.roofline", "resnet20"]),
        (signal.SIGTERM, ["bench.profile", "resnet20"]),
        (signal.SIGINT, ["bench.train", "--only", "first-step"]),
    ],
)
def test_interrupted_bench_removes_its_container(tmp_path: Path, number: signal.Signals, words: list[str]) -> None:
    docker = f'echo "$3" >> "{tmp_path}/$1"; case $1 in run) exec sleep 60;; esac'
    program(tmp_path / "bin" / "docker", docker)
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    argv = [sys.executable, "-c", IN_A_CONTAINER.format(words=[*words, "--image", "an-image"])]
    with subprocess.Popen(argv, cwd=harness.ROOT, env=environment, stderr=subprocess.DEVNULL) as running:
        assert waiting.until(lambda: written(tmp_path / "run"))
        running.send_signal(number)
        running.wait(timeout=30)
    assert (tmp_path / "rm").read_text() == (tmp_path / "run").read_text()
    assert not list(tmp_path.glob("tmp*"))


def test_stopped_bench_of_a_gpu_removes_its_container(tmp_path: Path) -> None:
    docker = f'echo "$3" >> "{tmp_path}/$1"; case $1 in run) exec sleep 60;; esac'
    program(tmp_path / "bin" / "docker", docker)
    program(tmp_path / "bin" / "nvidia-smi", "echo 'a GPU, 24 GiB'")
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "HOROVOD_SOURCE": str(tmp_path),  # without the example, which is not fetched
        "BENCH_OUTPUT": str(tmp_path),
    }
    argv = [str(harness.ROOT / "bench" / "gpu.sh"), "--image", "an-image", "--batches", "64"]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        assert waiting.until(lambda: written(tmp_path / "run"))
        running.terminate()
        assert running.wait(timeout=30) == 130
    assert (tmp_path / "rm").read_text() == (tmp_path / "run").read_text()


def test_page_is_written_into_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "OUTPUT", tmp_path / "results" / "today")
    harness.write("bench", [], 1)
    assert (tmp_path / "results" / "today" / "bench.md").exists()


def with_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Bench:
    """Return a bench whose command is a shell script."""
    monkeypatch.setattr(harness, "COMMAND", program(tmp_path / "orchestrator", script))
    return Bench(tmp_path)


@pytest.mark.parametrize("script", ["echo refused >&2; exit 2", "exit 0", "echo here; exit 1"])
def test_command_that_fails_has_no_time_to_its_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    with pytest.raises(SystemExit, match="exit code"):
        with_command(tmp_path, monkeypatch, script).first_line("train", "lenet")


def test_time_to_the_first_line_does_not_include_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, first = with_command(tmp_path, monkeypatch, "echo here; sleep 1; echo there"), list[float]()
    whole = timed(lambda: first.append(bench.first_line("run")))
    assert 0 < first[0] < whole - 0.9


def test_every_goal_of_a_growing_cluster_is_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = f"for rank in $(seq 32); do echo {scale.LINE}; done"
    bench = with_command(tmp_path, monkeypatch, f"case $1 in run) {run} ;; *) echo '{{}}' ;; esac")
    rows = scale.rows(bench, sorted({nodes for _, nodes in scale.GOALS}))
    assert sorted(row.goal for row in rows if row.goal) == sorted(scale.GOALS.values())


REPORT = (
    '{"cells": [{"ratio": 1.0, "low": 0.9, "high": 1.1}], "overhead": 0.02, '
    '"sitting": {"seconds": 20.0, "launches": [{"seconds": 5.0}]}}'
)


@pytest.mark.parametrize(
    ("main", "page", "options", "script", "row"),
    [
        (
            bench_main.main,
            "bench.md",
            ["--only", "deploys", "again", "--rounds", "1"],
            "case $1 in inventory) exit 1 ;; *) echo '{}' ;; esac",
            "cold deploy of the first node",
        ),
        (
            studies.main,
            "studies.md",
            [],
            f"case $* in *same-1*) exit 1 ;; study*) echo '{REPORT}' ;; *) echo '{{}}' ;; esac",
            "A/A studies whose interval contains 1, of 1 | ≥ 18 of 20 | 1",
        ),
    ],
)
def test_rows_before_a_failure_are_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    main: Callable[[], None],
    page: str,
    options: list[str],
    script: str,
    row: str,
) -> None:
    with_command(tmp_path, monkeypatch, script)
    monkeypatch.setattr(harness, "OUTPUT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench", *options])
    with pytest.raises(SystemExit, match="exit code 1"):
        main()
    assert row in (tmp_path / page).read_text()


def test_studies_without_intervals_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_command(tmp_path, monkeypatch, "exit 1")
    monkeypatch.setattr(sys, "argv", ["bench.studies", "--repetitions", "5"])
    with pytest.raises(SystemExit):
        studies.main()
    assert "fewer than 6 give no interval" in capsys.readouterr().err
