"""The study in a study's directory as it was started, and its cluster: what `study --resume` continues."""

from pathlib import Path

from orchestrator.config import yaml_documents
from orchestrator.errors import ConfigError, StateError
from orchestrator.schema import bounded_files
from orchestrator.schema.atomic_write import flush, replaced
from orchestrator.schema.bounded_files import Unreadable
from orchestrator.studies import journal, study_files
from orchestrator.studies.journal import CLUSTER, NO_DEPLOY, STUDY
from orchestrator.studies.study_definition import Study


def load(directory: Path) -> Study:
    """Return the study of a directory. Raises StateError if there is none."""
    path = directory / STUDY
    if not path.exists():
        raise StateError(f"{directory}: no study is here: {STUDY} is missing", "`orchestrator study FILE` starts one")
    return study_files.read(path)


def create(directory: Path, study: Study) -> None:
    """Make the directory of a study that starts.

    Raises:
        StateError: It holds a study already.
        ConfigError: It cannot be made.
    """
    if (directory / STUDY).exists():
        remedy = f"{journal.resume_command(directory)} continues it, --directory names another directory"
        raise StateError(f"{directory} holds a study already: {len(journal.read(directory))} launches", remedy)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError([f"--directory: {directory}: {error.strerror}"], "name one that can be made") from error
    save(directory, study)


def save(directory: Path, study: Study) -> None:
    """Write study.yaml, the study as it was started."""
    with replaced(directory / STUDY, 0o644) as file:
        file.write(yaml_documents.dump(study.model_dump(mode="json", exclude_defaults=True)).encode())
    flush(directory)


def write_cluster(directory: Path, name: str) -> None:
    """Write down on which cluster a study runs, so that the commands that continue it need not name it."""
    with replaced(directory / CLUSTER, 0o644) as file:
        file.write(f"{name}\n".encode())


def write_deploys(directory: Path, deploys: bool) -> None:
    """Write down whether a study may change the number of nodes, so that it continues as it was started."""
    path = directory / NO_DEPLOY
    if deploys:
        path.unlink(missing_ok=True)
    else:
        path.touch()


def read_deploys(directory: Path) -> bool:
    """Return whether a study may change the number of nodes."""
    return not (directory / NO_DEPLOY).exists()


def read_cluster(directory: Path) -> str | None:
    """Return the name of the cluster on which a study runs; None if none is written down. Raises StateError."""
    try:
        return bounded_files.read_text(directory / CLUSTER).strip()
    except FileNotFoundError:
        return None
    except Unreadable as error:
        raise journal.unusable(error, "remove this file, and name the cluster with --cluster") from None
