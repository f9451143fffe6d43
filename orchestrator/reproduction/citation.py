"""Texts of an exported run for people: how to cite it, how to repeat it."""

import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from orchestrator.config import yaml_documents
from orchestrator.recipes.select_recipe import ANY_SHAPE
from orchestrator.reproduction.exported_run import Exported
from orchestrator.runs.run_record import Run
from orchestrator.schema import TrainConfig

OF_TRAIN = (
    *("engine", "epochs", "steps", "until", "test_samples", "batch_size", "learning_rate", "seed", "precision"),
    *("backward_passes_per_step", "compression", "gradient_predivide_factor"),
)
OF_LAUNCH = ("cycle_time", "fusion_threshold")
README = """{title}

Started {date} UTC by orchestrator {version}.

    orchestrator rerun FILE      repeats it on the deployed cluster, and compares

What started it, as far as options can say it:

    {command}

run.json, provenance.json   how it was launched, on which nodes, by which image, from which commits
config.json                 every setting of a training run, the seed among them
packages.json               versions of all Python packages
data.sha256                 SHA-256 of every file of the data set (sha256sum --check reads it)
results.json, results.csv   what it gave; status.json: how it ended; log: what it wrote
check.json                  what `orchestrator check` measured between the nodes, if it was run
code/, output/, metrics/    a user's script; what it left; series of Prometheus
SHA256SUMS                  SHA-256 of every file here

The passwords and tokens that were found were taken out. Look through code/ and log before you publish them.
"""


def title(old: Exported) -> str:
    """Return one line that says what the run is."""
    if old.config:
        return f"{old.config.model} on {old.config.dataset}, {old.run.np} ranks ({old.run.id})"
    return f"{shlex.join(old.run.command)}, {old.run.np} ranks ({old.run.id})"


def citation(old: Exported, authors: Sequence[str]) -> str:
    """Return a CITATION.cff for the run by these ``authors``."""
    code = old.provenance.code
    software = {
        "type": "software",
        "title": "orchestrator",
        "authors": [{"name": "The orchestrator developers"}],
        "version": old.provenance.orchestrator,
        **({"commit": code.commit} if code else {}),
    }
    return yaml_documents.dump(
        {
            "cff-version": "1.2.0",
            "message": "If you use this run, please cite it as below.",
            "type": "dataset",
            "title": f"Training run: {title(old)}",
            "authors": [{"name": author} for author in authors],
            "version": old.run.id,
            "date-released": f"{_started(old):%Y-%m-%d}",
            "references": [software],
        }
    )


def readme(old: Exported) -> str:
    """Return the text that explains the archive."""
    return README.format(
        title=title(old),
        date=f"{_started(old):%Y-%m-%d %H:%M:%S}",
        version=old.provenance.orchestrator,
        command=shlex.join(repeating(old)),
    )


def repeating(old: Exported) -> list[str]:
    """Return the command that starts such a run, without an archive; of variables it has the names."""
    run, config = old.run, old.config
    variables = [word for name in old.provenance.variables for word in ("--env", name)]
    launch = ["--np", str(run.np), *_launch(run), *variables]
    if config is None:
        return ["orchestrator", "run", "--launcher", run.launcher, *launch, "--", *run.command]
    size = ["--image-size", str(config.image_size)] if config.dataset in ANY_SHAPE else []
    data = ["--data", "DIR"] if config.data else []
    train = ["orchestrator", "train", config.model, "--dataset", config.dataset]
    return [*train, *data, *size, *_training(old.results.config if old.results else config), *launch]


def _launch(run: Run) -> list[str]:
    """Return the options of the launcher."""
    if run.is_script and run.launcher != "horovod":
        return ["--parameter-servers", str(run.parameter_servers)] if run.parameter_servers else []
    autotune = ["--autotune"] if run.autotune else []
    return ["--controller", run.controller, *_options(run, OF_LAUNCH), *autotune]


def _training(config: TrainConfig) -> list[str]:
    """Return the options of a training run; whether images are augmented, and XLA, also if the answer is no."""
    answers = {key: getattr(config, key) for key in ("augment", "xla")}
    words = [f"--{'' if yes else 'no-'}{key}" for key, yes in answers.items() if yes is not None]
    words += [f"--{key.replace('_', '-')}" for key in ("hierarchical", "adasum", "save_model") if getattr(config, key)]
    skipped = [key for key in ("on_bad_sample", "on_nan") if getattr(config, key) == "skip"]
    return [*_options(config, OF_TRAIN), *words, *_options(config, skipped)]


def _options(settings: Run | TrainConfig, keys: Iterable[str]) -> list[str]:
    """Return the values of ``keys`` that are set, as options."""
    values = [(f"--{key.replace('_', '-')}", getattr(settings, key)) for key in keys]
    return [word for name, value in values if value is not None for word in (name, str(value))]


def _started(old: Exported) -> datetime:
    return datetime.fromtimestamp(old.run.started, timezone.utc)
