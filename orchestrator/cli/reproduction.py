"""Commands for a run that can be cited: export it, and repeat it from the archive."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator import exit_codes, process, progress, state
from orchestrator.cli import chosen_cluster, follow_run, launch_options, options, output
from orchestrator.cli.options import ConfigFile, Json, Name, key
from orchestrator.cli.runs import RunName
from orchestrator.cluster import Cluster
from orchestrator.errors import OrchestratorError, RunFailed, command
from orchestrator.reproduction import comparison, export_contents, exported_run, run_archive
from orchestrator.reproduction import rerun as reruns
from orchestrator.reproduction.comparison import Comparison, Tolerance
from orchestrator.reproduction.exported_run import Exported
from orchestrator.runs import collected_files, jobs, requirements, store, user_variables
from orchestrator.runs.jobs import scripts
from orchestrator.runs.run_record import Run
from orchestrator.schema.bounded_files import MAX_SHOWN, shown
from orchestrator.state import Record, StateDir

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; default: RUN.tar.gz in the current directory.")
]
Author = Annotated[
    list[str] | None,
    typer.Option("--author", help="Author for CITATION.cff; may be repeated; default: git's user.name."),
]
Data = Annotated[Path | None, key("train.data", "--data")]
Np = Annotated[int | None, typer.Option("--np", help="Ranks; default: as many as the exported run had.")]
Top1 = Annotated[float, typer.Option("--top1-points", min=0, help="Percentage points by which test top-1 may differ.")]
Loss = Annotated[float, typer.Option("--loss-share", min=0, help="Share by which the test loss may differ, as in 0.1.")]


def register(app: typer.Typer) -> None:
    app.command()(export)
    app.command()(rerun)


def export(
    run: RunName = None,
    target: Output = None,
    author: Author = None,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Pack a run into an archive to cite and repeat: settings, code, versions, hardware, results."""
    state_dir = chosen_cluster.state_dir(config_file, name)
    chosen, record = store.get(state_dir, run), state.read(state_dir)
    _fetch(state_dir, record, chosen)
    content = export_contents.gather(state_dir, record, chosen, author or _authors())
    path = target or Path(f"{chosen.id}.tar.gz")
    run_archive.write(content.files, path, int(chosen.started), content.executable)
    for cleaned in content.cleaned:
        progress.note(f"passwords or tokens were taken out of {cleaned}")
    if json:
        return output.as_json({"file": path, "bytes": path.stat().st_size, "files": sorted(content.files)})
    output.line(f"{path}: {len(content.files)} files, {path.stat().st_size:,} bytes")
    repeats = command(f"rerun {shlex.quote(str(path))}", state_dir.name)
    progress.note(f"{repeats} repeats it; look through code/, log and run.json before you publish it")


def _fetch(state_dir: StateDir, record: Record | None, run: Run) -> None:
    """Fetch what only the cluster has of a run, if the cluster is there."""
    if record and record.cluster:
        collected_files.collect_missing(state_dir, record.cluster, run)
        export_contents.fetch_series(state_dir, record, record.cluster, run)


def _authors() -> list[str]:
    with suppress(OrchestratorError):
        return [process.run("ask git for your name", ["git", "config", "user.name"]).strip()]
    return ["(fill in the authors)"]


def rerun(
    file: Annotated[Path, typer.Argument(help="Archive that `orchestrator export` wrote.")],
    data: Data = None,
    env: launch_options.Env = None,
    env_file: launch_options.EnvFile = None,
    requirements_file: launch_options.RequirementsFile = None,
    np: Np = None,
    top1_points: Top1 = Tolerance.top1,
    loss_share: Loss = Tolerance.loss,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Run the code of the archive without asking.")] = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Repeat an exported run on the deployed cluster, and compare weights, scores and every field.

    Exit code 0: equal; 10: within tolerance; 11: different.
    """
    environment = user_variables.read(env or [], env_file or [])
    with run_archive.unpacked(file) as directory:
        old = exported_run.load(directory, file)
        reruns.require_variables(old, environment.values)
        flags = {**reruns.options(old), "train.data": data, **({"launch.np": np} if np is not None else {})}
        config = chosen_cluster.load_config(config_file, name, flags)
        if old.config:
            settings = reruns.settings(old)
            state_dir, cluster, digest = launch_options.deployed_for_trainer(config)
            run = jobs.repeat(state_dir, cluster, digest, config, settings, environment)
        else:
            _confirm(old, yes)
            state_dir, cluster, digest = launch_options.deployed(config)
            packages = requirements.of_file(requirements_file) if requirements_file else reruns.versions(old)
            run = scripts.start(state_dir, cluster, digest, config, reruns.source(old), environment, packages)
        _finish(state_dir, cluster, run, old)
        new = exported_run.load(state_dir.runs / run.id)
        compared = comparison.compare(old, new, Tolerance(top1_points, loss_share))
    _report(old.run.id, run.id, compared, json)
    raise typer.Exit(exit_codes.RERUN[compared.verdict])


def _confirm(old: Exported, yes: bool) -> None:
    """Ask before code of an archive runs."""
    progress.note(f"the archive runs its own code on the cluster: {shown(shlex.join(old.run.command))}")
    options.confirm("run it?", "nothing was started", yes)


def _finish(state_dir: StateDir, cluster: Cluster, run: Run, old: Exported) -> None:
    """Follow a run to its end. One that fails as the one before did is compared, too."""
    try:
        follow_run.follow(state_dir, cluster, run, json=False, show=lambda *_: None, quiet=True)
    except RunFailed:
        if old.config or not store.is_collected(state_dir, run):
            raise


def _report(old: str, new: str, compared: Comparison, json: bool) -> None:
    if json:
        return output.as_json({"run": new, "repeats": old, **vars(compared)})
    rows: list[Sequence[object]] = [
        (number, "equal" if equal else "differ", f"{top1:.2%}", f"{top1_now:.2%}", f"{loss:.4f}", f"{loss_now:.4f}")
        for number, equal, top1, top1_now, loss, loss_now in compared.epochs
    ]
    if rows:
        output.table(("epoch", "weights", "top-1 then", "now", "loss then", "now"), rows)
    if compared.differences:
        output.line()
        output.table(
            ("field that differs", "then", "now"),
            [(f"{d.field}{' *' * d.decisive}", _short(d.was), _short(d.now)) for d in compared.differences],
        )
        output.line("* decides on the bits of the weights")
    output.line(f"{compared.verdict}: {new} repeats {old}: {compared.reason}")


def _short(value: Any) -> str:
    if value is None:
        return output.NOTHING
    return value if isinstance(value, str) and len(value) <= MAX_SHOWN else shown(value)
