"""`orchestrator export`: everything that a citation needs, also after the teardown, and no secret."""

import base64
import json
import random
import re
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import state
from orchestrator.monitoring import connection
from orchestrator.reproduction import citation, export_contents, exported_run, rerun, run_archive
from orchestrator.reproduction.exported_run import Exported
from orchestrator.runs import checksums, source_archive
from orchestrator.runs.datasets import FoundDataset
from orchestrator.schema import RunStatus
from orchestrator.state import Record, StateDir
from tests import builders
from tests.samples import SECRETS
from tests.stand_ins import prometheus_stand_in, ssh_stand_in, tunnel_stand_in
from tests.stand_ins.prometheus_stand_in import NOW
from tests.unit.conftest import Cli, StandIn
from tests.unit.reproduction import cases


def members(path: Path) -> dict[str, bytes]:
    with run_archive.unpacked(path) as directory:
        return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_training_run_is_exported_after_the_teardown(cli: Cli, tmp_path: Path) -> None:
    state_dir, run = cases.trained()
    state.forget(state_dir)
    finished = cli("export", "--author", "A. Author", "--json")
    assert finished.returncode == 0, finished.stderr
    files = members(tmp_path / f"{run.id}.tar.gz")
    assert json.loads(finished.stdout)["files"] == sorted(files.keys() - {run_archive.SUMS})
    assert {"config.json", "results.json", "packages.json", "data.sha256", "log", "metrics/up.csv"} <= files.keys()
    node = json.loads(files["provenance.json"])["nodes"]["demo-head"]
    assert (node["hardware"]["cpu_model"], node["hardware"]["nic_mbits"]) == ("Xeon", 10_000)
    cited = yaml.safe_load(files["CITATION.cff"])
    assert (cited["authors"], cited["version"], cited["type"]) == ([{"name": "A. Author"}], run.id, "dataset")
    assert "orchestrator train resnet20 --dataset mnist" in files["README.txt"].decode()


def test_origin_of_a_run_includes_the_inputs_of_its_image() -> None:
    state_dir, run = cases.trained()
    provenance = exported_run.load(state_dir.runs / run.id).provenance
    assert str(provenance.settings.pop("local.base_image")).startswith("debian:12")
    assert provenance.settings == {"provider": "local", "nodes": 2, "framework": "tensorflow", "gpu.driver": "auto"}
    assert {"Dockerfile", "orchestrator/trainer/train.py"} <= provenance.image_files.keys()
    assert provenance.trainer is not None
    assert provenance.code is not None
    assert len(provenance.code.commit) == 40


def test_head_lists_checksums_like_this_machine(tmp_path: Path) -> None:
    for name, text in {"b": "two", "a b": "one", "A/é": "three"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    dataset = FoundDataset("imagenet", tmp_path, ["b", "A/é", "a b"], train=1, test=1, note="")
    result = subprocess.run(
        ["sh", "-c", export_contents.SUMMED, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert result.stdout == checksums.of(dataset)


def test_export_names_every_file_to_look_through_for_secrets(cli: Cli) -> None:
    cases.trained()
    assert "code/, log and run.json" in cli("export", "--author", "A").stderr


def on_head(port: int, host_key: str) -> tuple[StateDir, Record, Exported]:
    """Return a cluster, and its run on data that only the head has."""
    state_dir, cluster = ssh_stand_in.deployed(port, host_key)
    keys = {node.id: host_key for node in cluster.nodes.values()}
    exported = cases.loaded()
    assert exported.config
    config = exported.config.model_copy(update={"data": "/shared/data/imagenet-0-records"})
    (exported.directory / checksums.FILE).unlink()
    record = Record(id="1a2b3c4d", config={"provider": "local"}, cluster=cluster, host_keys=keys)
    return state_dir, record, replace(exported, config=config)


@pytest.mark.parametrize(
    ("fails", "note"),
    [
        ("test -d", "the data of .* is neither on this machine nor on the cluster any more"),
        (
            "sha256sum",
            "the data of .* on the cluster: .*sum up data.*`orchestrator export .* --cluster demo` tries again",
        ),
    ],
)
def test_reason_for_missing_checksums_is_told(capsys: pytest.CaptureFixture[str], fails: str, note: str) -> None:
    with ssh_stand_in.listening(lambda command: None if fails in command else b"") as (port, host_key):
        assert export_contents._data(*on_head(port, host_key)) is None
    assert re.search(note, " ".join(capsys.readouterr().err.split()))


def test_exporting_twice_gives_equal_bytes(cli: Cli, tmp_path: Path) -> None:
    cases.trained()
    for name in ("one", "two"):
        assert cli("export", "-o", name, "--author", "A").returncode == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [({"kind": "check"}, "is a check: only what `train` and `run` started"), ({}, "has not ended, or its files")],
)
def test_incomplete_run_is_refused(cli: Cli, changes: dict[str, Any], problem: str) -> None:
    state_dir, run = cases.trained(**changes)
    state.forget(state_dir)
    (state_dir.runs / run.id / "status.json").unlink()
    finished = cli("export")
    assert (finished.returncode, finished.stdout) == (2 if changes else 1, "")
    assert problem in finished.stderr


def test_six_secrets_are_not_in_the_archive(cli: Cli, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('training')\n")
    key = f"-----BEGIN PRIVATE KEY-----\n{SECRETS['key']}\n-----END PRIVATE KEY-----\n"
    (code / "deploy").write_text(key)
    (code / "clouds.yaml").write_text(f"clouds: {{x: {{auth: {{password: {SECRETS['credentials']}}}}}}}\n")
    (code / "requirements.txt").write_text(f"--index-url https://me:{SECRETS['index']}@pypi.example.org/simple\nsix\n")
    state_dir, run = cases.scripted(code, "python", str(code / "train.py"), variables=["API_TOKEN"])
    record = builders.read_record(state_dir)
    config = {**record.config, "jupyter_password": SECRETS["configuration"]}
    state.write(state_dir, record.model_copy(update={"config": config, "cluster": None}))
    leaks = [
        f"{SECRETS[name]} {base64.b64encode(SECRETS[name].encode()).decode()}"
        for name in ("configuration", "environment")
    ]
    (state_dir.runs / run.id / "log").write_text("\n".join([*leaks, f"https://me:{SECRETS['index']}@pypi.example.org"]))
    finished = cli("export", "-o", "run.tar.gz", OS_PASSWORD=SECRETS["environment"])
    assert finished.returncode == 0, finished.stderr
    assert "taken out of code/requirements.txt" in finished.stderr
    files = members(tmp_path / "run.tar.gz")
    assert sorted(name for name in files if name.startswith("code/")) == ["code/requirements.txt", "code/train.py"]
    assert files["code/requirements.txt"] == b"--index-url https://pypi.example.org/simple\nsix\n"
    assert b'"API_TOKEN"' in files["provenance.json"]
    whole = b"\n".join(files.values())
    assert [name for name, secret in SECRETS.items() if is_in(whole, secret)] == []


@pytest.mark.parametrize("secret", ["pass'word", 'pass "word" ' * 9, "glückliches Wort"])
def test_password_in_the_command_of_a_script_is_in_no_file(cli: Cli, tmp_path: Path, secret: str) -> None:
    (tmp_path / "train.py").touch()
    cases.scripted(tmp_path, "python", str(tmp_path / "train.py"), f"--password={secret}")
    finished = cli("export", "-o", "run.tar.gz", DB_PASSWORD=secret)
    assert finished.returncode == 0, finished.stderr
    files = members(tmp_path / "run.tar.gz")
    assert json.loads(files["run.json"])["command"][-1] == "--password=[removed]"
    assert "'--password=[removed]'" in files["README.txt"].decode()
    assert "[removed]" in yaml.safe_load(files["CITATION.cff"])["title"]


@pytest.mark.parametrize("word", ["controller", "589934592"], ids=["key", "part of a number"])
def test_password_that_is_part_of_the_record_itself_is_refused(cli: Cli, word: str) -> None:
    cases.trained()
    finished = cli("export", DB_PASSWORD=word)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert "run.json cannot be read without the passwords in it" in " ".join(finished.stderr.split())


def is_in(content: bytes, secret: str) -> bool:
    """Search for a secret, plain and in base64 at each offset."""
    coded = [base64.b64encode(b"\0" * n + secret.encode()).rstrip(b"=")[4:-2] for n in range(3)]
    return any(form in content for form in [secret.encode(), *coded])


def test_search_for_secrets_finds_them() -> None:
    assert is_in(b"..of-cloud-Pa55..", "of-cloud-Pa55")
    assert is_in(base64.b64encode(b"user:of-cloud-Pa55"), "of-cloud-Pa55")
    assert not is_in(b"of-cloud", "of-cloud-Pa55")


def test_repeat_command_of_a_script_has_names_of_variables_only(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    state_dir, run = cases.scripted(tmp_path, "python", str(tmp_path / "train.py"), "--lr", "1", variables=["B", "A"])
    words = citation.repeating(exported_run.load(state_dir.runs / run.id))
    assert words[-9:] == ["--env", "A", "--env", "B", "--", "python", "train.py", "--lr", "1"]


def test_repeat_command_of_training_has_names_of_variables() -> None:
    old = cases.loaded()
    words = citation.repeating(replace(old, provenance=old.provenance.model_copy(update={"variables": ["A", "B"]})))
    assert words[-4:] == ["--env", "A", "--env", "B"]


def test_repeat_command_of_training_saves_the_network_if_the_run_did() -> None:
    old = cases.loaded()
    assert "--save-model" not in citation.repeating(old)
    assert old.results is not None
    config = old.results.config.model_copy(update={"save_model": True})
    saved = replace(old, results=old.results.model_copy(update={"config": config}))
    assert "--save-model" in citation.repeating(saved)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"augment": False}, "--no-augment"),
        ({"augment": True}, "--augment"),
        ({"xla": False}, "--no-xla"),
        ({"on_nan": "skip"}, "--on-nan skip"),
    ],
)
def test_repeat_command_of_training_has_its_switches(changes: dict[str, Any], words: str) -> None:
    old = cases.loaded()
    assert old.results is not None
    config = old.results.config.model_copy(update=changes)
    command = " ".join(citation.repeating(replace(old, results=old.results.model_copy(update={"config": config}))))
    assert f" {words} " in command
    assert "skip" not in " ".join(citation.repeating(old))


def test_repeat_command_has_the_options_of_the_launch() -> None:
    old = cases.loaded()
    tuned = old.run.model_copy(update={"cycle_time": 2.5, "fusion_threshold": 16, "autotune": True})
    words = " ".join(citation.repeating(replace(old, run=tuned)))
    assert words.endswith("--np 2 --controller gloo --cycle-time 2.5 --fusion-threshold 16 --autotune")
    served = tuned.model_copy(update={"kind": "script", "launcher": "tensorflow", "parameter_servers": 1})
    script = citation.repeating(replace(old, run=served, config=None, results=None))
    assert script[2:] == ["--launcher", "tensorflow", "--np", "2", "--parameter-servers", "1", "--", *served.command]


@pytest.mark.parametrize(("dataset", "chosen"), [("synthetic", True), ("mnist", False)])
def test_repeat_command_of_training_has_a_size_of_images_that_can_be_chosen(dataset: str, chosen: bool) -> None:
    old = cases.loaded()
    assert old.config is not None
    config = old.config.model_copy(update={"dataset": dataset, "image_size": 96})
    assert ("--image-size 96" in " ".join(citation.repeating(replace(old, config=config)))) is chosen


def test_code_is_exported_as_of_the_start_of_the_run(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "code" / "train.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho first\n")
    script.chmod(0o755)
    state_dir, run = cases.scripted(script.parent, str(script), exit_code=3)
    script.write_text("#!/bin/sh\necho second\n")
    assert cli("export", "-o", "run.tar.gz").returncode == 0
    assert members(tmp_path / "run.tar.gz")["code/train.sh"] == b"#!/bin/sh\necho first\n"
    with tarfile.open(tmp_path / "run.tar.gz") as packed:
        assert packed.getmember(f"{run_archive.ROOT}/code/train.sh").mode == 0o755
    with run_archive.unpacked(tmp_path / "run.tar.gz") as directory:
        old = exported_run.load(directory)
    assert old.output == {"loss": 0.5, "epochs.0.top1": 0.9}
    assert old.status == RunStatus(state="finished", exit_code=3, started=1.0, ended=9.0)
    assert (state_dir.runs / run.id).exists()


@pytest.mark.parametrize(
    ("content", "numbers", "note"),
    [
        (
            b'{"loss": NaN, "best": -Infinity, "top1": 0.5}',
            {"top1": 0.5},
            "not finite, so not compared: ['loss', 'best']",
        ),
        (b'{"loss": 1e999}', {}, "not finite, so not compared: ['loss']"),
        (b"loss 0.5\n", {}, "line 1: not JSON: Expecting value: its numbers are not compared"),
        (b"\xff\xfe", {}, "not UTF-8 text (byte 0xff): its numbers are not compared"),
    ],
    ids=["not finite", "overflow", "text", "bytes"],
)
def test_any_results_of_a_script_are_exported_as_they_are(
    cli: Cli, tmp_path: Path, content: bytes, numbers: dict[str, float], note: str
) -> None:
    (tmp_path / "train.py").write_text("print()")
    state_dir, run = cases.scripted(tmp_path, "python", str(tmp_path / "train.py"))
    (state_dir.runs / run.id / exported_run.OUTPUT).write_bytes(content)
    finished = cli("export", "-o", "run.tar.gz")
    assert finished.returncode == 0, finished.stderr
    assert note in " ".join(finished.stderr.split())
    assert members(tmp_path / "run.tar.gz")[exported_run.OUTPUT] == content
    assert exported_run.load(state_dir.runs / run.id).output == numbers


def test_code_of_the_largest_size_that_is_kept_is_exported(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers and compression make its copy larger than the files."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").touch()
    (code / "noise").write_bytes(random.Random(1).randbytes(1 << 20))  # noqa: S311
    monkeypatch.setattr(source_archive, "MOST", 1 << 20)
    state_dir, run = cases.scripted(code, "python", str(code / "train.py"))
    assert (state_dir.runs / run.id / source_archive.FILE).stat().st_size > source_archive.MOST
    finished = cli("export", "-o", "run.tar.gz")
    assert finished.returncode == 0, finished.stderr
    assert len(members(tmp_path / "run.tar.gz")["code/noise"]) == 1 << 20


@pytest.mark.parametrize("content", [None, "{"], ids=["missing", "damaged"])
def test_settings_that_cannot_be_read_are_no_bug(cli: Cli, tmp_path: Path, content: str | None) -> None:
    state_dir, run = cases.trained()
    (state_dir.runs / run.id / "data.sha256").unlink()
    config = state_dir.runs / run.id / "config.json"
    config.unlink()
    if content is not None:
        config.write_text(content)
    finished = cli("export", "-o", "run.tar.gz")
    if content is None:
        assert finished.returncode == 0, finished.stderr
        assert "config.json" not in members(tmp_path / "run.tar.gz")
    else:
        assert (finished.returncode, finished.stdout) == (2, "")
        assert "config.json: line 1: not JSON" in " ".join(finished.stderr.split())


@pytest.mark.parametrize("kept", [0, 12, 40])
def test_damaged_copy_of_the_code_is_named(cli: Cli, tmp_path: Path, kept: int) -> None:
    (tmp_path / "train.py").write_text("print()")
    state_dir, run = cases.scripted(tmp_path, "python", str(tmp_path / "train.py"))
    packed = state_dir.runs / run.id / "source.tar.gz"
    packed.write_bytes(packed.read_bytes()[:kept] or b"junk")
    finished = cli("export")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert f"{packed}: is damaged: " in " ".join(finished.stderr.split())


def test_series_that_exceed_their_tree_are_left_out(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state_dir, run = cases.trained()
    for name in ("load.csv", "memory.csv", "network.csv"):
        (state_dir.runs / run.id / "metrics" / name).write_bytes(bytes(700 << 10))
    (state_dir.runs / run.id / "metrics" / "network.csv").write_text("time,value\n1,1\n")
    monkeypatch.setitem(run_archive.LIMITS, run_archive.SERIES, 1 << 20)
    finished = cli("export", "-o", "run.tar.gz")
    assert finished.returncode == 0, finished.stderr
    assert "left out: metrics/memory.csv: an archive has at most 1 MiB of metrics/" in finished.stderr
    series = [name for name in members(tmp_path / "run.tar.gz") if name.startswith("metrics/")]
    assert sorted(series) == ["metrics/load.csv", "metrics/network.csv", "metrics/up.csv"]


@pytest.mark.parametrize("ended", [False, True])
def test_series_are_fetched_only_after_the_run_has_ended(stand_in: StandIn, ended: bool) -> None:
    """Those of a run in progress would stand for the whole run: a teardown fetches none that are here."""
    state_dir, run = cases.trained(started=NOW - 100.0)
    record, directory = builders.read_record(state_dir), state_dir.runs / run.id
    shutil.rmtree(directory / "metrics")
    (directory / "status.json").unlink()
    if ended:
        RunStatus(state="finished", exit_code=0, started=NOW - 100.0, ended=NOW).write(directory / "status.json")
    answers = prometheus_stand_in.answers_for_run(prometheus_stand_in.training(run.id), run.id)
    with prometheus_stand_in.listening(answers) as port:
        tunnel_stand_in.on_path(stand_in, {connection.PROMETHEUS.port: port})
        export_contents.fetch_series(state_dir, record, builders.cluster(), run)
    assert (directory / "metrics").exists() is ended


def test_repeat_command_of_training_has_its_test_samples() -> None:
    state_dir, run = cases.trained()
    old = exported_run.load(state_dir.runs / run.id)
    assert old.config
    assert "--test-samples" not in citation.repeating(old)
    config = old.config.model_copy(update={"test_samples": 64})
    limited = replace(old, results=cases.TRAINED.model_copy(update={"config": config}), config=config)
    words = citation.repeating(limited)
    assert words[words.index("--test-samples") + 1] == "64"
    assert rerun.settings(limited).test_samples == 64
