"""Export runs, delete the cluster, and repeat them on a fresh one with equal weights."""

import base64
import hashlib
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Cli
from tests.e2e.training import HEAD, ON_MNIST, WORKER
from tests.samples import SECRETS

SCRIPT = """
import hashlib, json, os, sys
from pathlib import Path
import horovod.tensorflow as hvd
hvd.init()
assert hashlib.sha256(os.environ["API_TOKEN"].encode()).hexdigest() == "DIGEST"
numbers = {"size": hvd.size(), "loss": 1 / (2 + float(sys.argv[1]))}
if hvd.rank() == 0:
    Path(os.environ["ORCHESTRATOR_OUTPUT"], "results.json").write_text(json.dumps(numbers))
    print("asked", os.environ["ORCHESTRATOR_RUN"])
"""


@pytest.fixture(scope="module")
def exported(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Path]:
    """Export a training run and a script run, tear down their cluster, and return archives and results."""
    directory = tmp_path_factory.mktemp("exported")
    (cli.state / "cluster.yaml").write_text(f"name: e2e\njupyter_password: {SECRETS['configuration']}\n")
    cli("deploy", "--nodes", "2")
    cli("check")
    lasting = ("--epochs", "3", "--batch-size", "2")  # Prometheus scrapes every 5 s and must see the end of an epoch
    trained = cli.json("train", "lenet", *ON_MNIST, *lasting, "--seed", "3")
    code = directory / "code"
    code.mkdir()
    digest = hashlib.sha256(SECRETS["variable"].encode()).hexdigest()
    (code / "train.py").write_text(SCRIPT.replace("DIGEST", digest))
    (code / "deploy").write_text(f"-----BEGIN PRIVATE KEY-----\n{SECRETS['key']}\n-----END PRIVATE KEY-----\n")
    (code / "clouds.yaml").write_text(f"clouds: {{x: {{auth: {{password: {SECRETS['credentials']}}}}}}}\n")
    (code / "requirements.txt").write_text(f"--index-url https://me:{SECRETS['index']}@pypi.example.org/simple\nsix\n")
    variable = f"API_TOKEN={SECRETS['variable']}"
    cli("run", "--no-packages", "--env", variable, "--", "python", str(code / "train.py"), "0.5")
    script = cli.json("runs")[-1]["id"]
    cli.environment["OS_PASSWORD"] = SECRETS["environment"]
    cli("export", script, "--output", str(directory / "script.tar.gz"))
    cli("export", trained["run"], "--output", str(directory / "early.tar.gz"))
    cli("teardown")
    (cli.state / "cluster.yaml").unlink()
    cli("export", trained["run"], "--output", str(directory / "trained.tar.gz"))
    assert (directory / "trained.tar.gz").read_bytes() == (directory / "early.tar.gz").read_bytes()
    del cli.environment["OS_PASSWORD"]
    shutil.rmtree(cli.state)
    cli.state.mkdir()
    return directory / "trained.tar.gz", trained, directory / "script.tar.gz"


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as packed:
        files = ((member.name.partition("/")[2], packed.extractfile(member)) for member in packed)
        return {name: file.read() for name, file in files if file}


def test_archive_describes_every_input_of_a_run(exported: tuple[Path, Any, Path]) -> None:
    files = members(exported[0])
    provenance = json.loads(files["provenance.json"])
    assert list(provenance["nodes"]) == [HEAD, WORKER]
    hardware = provenance["nodes"][WORKER]["hardware"]
    assert hardware["cpu_flags"]
    assert hardware["kernel"]
    assert provenance["image"].startswith("sha256:")
    assert "horovod" in json.loads(files["packages.json"])["image"]
    assert len(files["data.sha256"].splitlines()) == len(list(Path(ON_MNIST[-1]).glob("*.gz")))
    assert json.loads(files["check.json"])["size"] == 2
    assert json.loads(files["config.json"])["seed"] == 3
    assert b",test," in files["metrics/orchestrator_training_top1_ratio.csv"]


def test_archive_contains_no_planted_secret(exported: tuple[Path, Any, Path]) -> None:
    whole = b"\n".join([*members(exported[0]).values(), *(script := members(exported[2])).values()])
    assert sorted(name for name in script if name.startswith("code/")) == ["code/requirements.txt", "code/train.py"]
    for secret in SECRETS.values():
        forms = [base64.b64encode(b"\0" * n + secret.encode()).rstrip(b"=")[4:-2] for n in range(3)]
        assert [form for form in [secret.encode(), *forms] if form in whole] == []


def test_run_is_repeated_with_equal_weights_on_a_fresh_cluster(cli: Cli, exported: tuple[Path, Any, Path]) -> None:
    archive, trained, _ = exported
    cli("deploy", "--nodes", "2", "--no-monitoring")
    again = cli.json("rerun", str(archive), "--data", ON_MNIST[-1])
    assert again["verdict"] == "equal", again
    fields = {difference["field"] for difference in again["differences"]}
    assert fields <= {"commit of orchestrator"}  # differs if the checkout changes during the test
    assert (len(again["epochs"]), again["expected_equal"]) == (3, True)
    weights = [epoch["weights_sha256"] for epoch in cli.json("results", again["run"])["epochs"]]
    assert weights == [epoch["weights_sha256"] for epoch in trained["epochs"]]


def test_fewer_ranks_are_named_and_compared_within_tolerance(cli: Cli, exported: tuple[Path, Any, Path]) -> None:
    words = ("rerun", str(exported[0]), "--data", ON_MNIST[-1], "--np", "1", "--top1-points", "100")
    output = cli(*words, "--loss-share", "1", code=10).stdout
    assert "within tolerance" in output
    assert next(line for line in output.splitlines() if line.startswith("ranks *")).split()[2:] == ["2", "1"]
    assert "different" in cli(*words, "--loss-share", "0", code=11).stdout


def test_script_is_repeated_from_the_archive(cli: Cli, exported: tuple[Path, Any, Path]) -> None:
    assert "values are not in the archive" in cli("rerun", "--yes", str(exported[2]), code=2).stderr
    variable = f"API_TOKEN={SECRETS['variable']}"
    again = cli.json("rerun", "--yes", "--env", variable, str(exported[2]))
    assert again["verdict"] == "equal", again
    assert "all 2 numbers" in again["reason"]
