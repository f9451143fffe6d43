"""A finished run with the files that its export needs, written by the functions of a launch."""

import gzip
import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from orchestrator import state
from orchestrator.reproduction import exported_run, run_archive
from orchestrator.reproduction.exported_run import Exported
from orchestrator.runs import provenance, script, source_archive
from orchestrator.runs.run_record import Run
from orchestrator.schema import RunStatus
from orchestrator.state import StateDir
from tests import builders

TRAINED = builders.results([builders.epoch(1, weights_sha256="a1"), builders.epoch(2, weights_sha256="a2")])
INSTALLED = {"image": {"keras": "3.0", "numpy": "1.26"}, "overlay": {"einops": "0.8.0"}}
FINISHED = RunStatus(state="finished", exit_code=0, started=1.0, ended=9.0)


def trained(name: str = "default", **changes: Any) -> tuple[StateDir, Run]:
    """Return a training run of a cluster; ``changes`` are fields of its record."""
    state_dir = builders.deployed(name)
    run = builders.run(hardware={"demo-head": builders.hardware(), "demo-worker-0": builders.hardware()}, **changes)
    directory = _launched(state_dir, run)
    TRAINED.config.write(directory / "config.json")
    TRAINED.write(directory / "results.json")
    (directory / "results.csv").write_text("epoch\n1\n2\n")
    (directory / "data.sha256").write_text(f"{'0' * 64}  train-images\n")
    (directory / "metrics").mkdir(exist_ok=True)
    (directory / "metrics" / "up.csv").write_text("time,value\n1,1\n")
    return state_dir, run


def scripted(directory: Path, *argv: str, variables: Iterable[str] = (), exit_code: int = 0) -> tuple[StateDir, Run]:
    """Return a run of the script in ``directory``."""
    state_dir = builders.deployed()
    source = script.gather(argv)
    run = builders.run(id="script-1", kind="script", command=source.command)
    here = _launched(state_dir, run, {**source.files, **source.directories}, variables, exit_code)
    source_archive.keep(state_dir, run, source_archive.packed(source))
    (here / "output").mkdir(exist_ok=True)
    (here / "output" / "results.json").write_text(json.dumps({"loss": 0.5, "epochs": [{"top1": 0.9}]}))
    return state_dir, run


def _launched(
    state_dir: StateDir, run: Run, files: Any = None, variables: Iterable[str] = (), exit_code: int = 0
) -> Path:
    directory = state_dir.runs / run.id
    state.replace(directory / "run.json", run.model_dump_json())
    sent = {f"src/{name}": path for name, path in (files or {}).items()}
    provenance.record(state_dir, builders.cluster(), run, sent, variables)
    FINISHED.model_copy(update={"exit_code": exit_code}).write(directory / "status.json")
    (directory / "packages.json").write_text(json.dumps(INSTALLED))
    (directory / "log").write_text("[0]<stdout>:epoch 1/2\n")
    return directory


def loaded(**changes: Any) -> Exported:
    """Return the files of a training run, some of which ``changes`` replace."""
    state_dir, run = trained()
    return Exported(**{**vars(exported_run.load(state_dir.runs / run.id)), **changes})


def packed(members: Iterable[tuple[str, bytes]], kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """Return an archive with these members in the folder of an exported run."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as written:
        for name, data in members:
            member = tarfile.TarInfo(f"{run_archive.ROOT}/{name}")
            member.type, member.linkname = kind, link
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            written.addfile(member, io.BytesIO(data))
    return gzip.compress(content.getvalue())
