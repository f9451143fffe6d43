"""Notes on files that a script imports or names, and that are not sent."""

import re
import shlex
from pathlib import Path

import pytest

from orchestrator.runs import script, unsent_files


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("mine/__init__.py", "helpers.py", "scripts/near.py", "json/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("from mine.model import net", "train.py imports mine of {0}, but only {0}/scripts is sent"),
        ("import helpers", "use `orchestrator run -- python -m scripts.train` in {0}"),
        ("import near, helpers", "use `orchestrator run --env PYTHONPATH=scripts -- python -m scripts.train` in {0}"),
        ("import numpy, json, scripts, near.mine", ""),
    ],
)
def test_module_above_the_directory_of_the_script_is_named(repository: Path, text: str, advice: str) -> None:
    (repository / "scripts" / "train.py").write_text(text)
    source = script.gather(["python", str(repository / "scripts" / "train.py"), "-m", "5"])
    assert advice.format(repository) in unsent_files.note_on_imports(source)
    assert bool(unsent_files.note_on_imports(source)) == bool(advice)


RUN, TRAIN = ["orchestrator", "run"], ["python", "-m", "scripts.train"]
FROM_ROOT = "`orchestrator run -- python -m scripts.train` in "


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (
            ["--config", "conf/a.yaml"],
            f"conf/a.yaml: found in {{0}}, but only {{0}}/scripts is sent: .*{FROM_ROOT}{{0}}",
        ),
        (["--config=conf/a.yaml", "conf"], "conf/a.yaml, conf: found in {0}"),
        (["--config", "near.py", "--name", "x" * 5000, "--out", "new.csv", "..", "/etc"], "$"),
    ],
)
def test_arguments_that_name_unsent_files_are_noted(
    repository: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], note: str
) -> None:
    for name in ("conf/a.yaml", "scripts/train.py"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).touch()
    monkeypatch.chdir(repository)
    source = script.gather(["python", "scripts/train.py", *words])
    assert re.match(note.format(repository), unsent_files.note_on_arguments(source))


@pytest.fixture
def project(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with data next to it."""
    (repository / "data").mkdir()
    (repository / "data" / "x.csv").touch()
    (repository / "scripts" / "train.py").touch()
    (repository / "scripts" / "linked").symlink_to(repository / "data")
    monkeypatch.chdir(repository / "scripts")
    return repository / "scripts"


@pytest.mark.parametrize("program", [["train.py"], ["-m", "train"], ["-mtrain"]])
@pytest.mark.parametrize("value", ["../data/x.csv", "{0}/data/x.csv", "linked/x.csv"])
def test_data_outside_the_current_directory_is_noted(project: Path, program: list[str], value: str) -> None:
    value = value.format(project.parent)
    note = unsent_files.note_on_arguments(script.gather(["python", *program, "--epochs=2", f"--data={value}"]))
    assert note.startswith(f"{value}: found on this machine, but only {project} is sent")
    assert f"copy it with `orchestrator cp {value} head:/shared/` and name /shared/x.csv" in note


def test_absolute_path_is_copied_though_the_current_directory_could_be_sent(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    argv = ["python", "scripts/train.py", str(project.parent / "data")]
    assert "name /shared/data" in unsent_files.note_on_arguments(script.gather(argv))


@pytest.mark.parametrize("value", ["..", "/", "/dev/null", "/tmp", "near.py", "../absent.csv", "./near.py"])
def test_files_that_the_script_finds_or_that_are_no_data_are_not_noted(project: Path, value: str) -> None:
    assert unsent_files.note_on_arguments(script.gather(["python", "train.py", "--data", value])) == ""


def test_data_on_the_shared_storage_are_not_noted(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent_files, "ON_NODES", (str(tmp_path / "data"),))
    assert unsent_files.note_on_arguments(script.gather(["python", "train.py", "../data/x.csv"])) == ""


def noted_command(repository: Path, **files: str) -> list[str]:
    """Return the words of the command to use instead of ``python scripts/train.py --config helpers.py``."""
    for name, text in files.items():
        (repository / "scripts" / f"{name}.py").write_text(text)
    note = unsent_files.note_on_arguments(script.gather(["python", "scripts/train.py", "--config", "helpers.py"]))
    return shlex.split(note.split("`")[1])


def test_script_that_imports_a_module_needs_its_directory(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    options = ["--env", "PYTHONPATH=scripts"]
    assert noted_command(repository, train="import near") == [*RUN, *options, "--", *TRAIN]


def test_launcher_is_named_if_only_an_imported_module_tells_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    words = noted_command(repository, train="import ddp_utils", ddp_utils="import torch.distributed")
    assert words == [*RUN, "--env", "PYTHONPATH=scripts", "--launcher", "torchrun", "--", *TRAIN]


def test_launcher_is_not_named_if_the_module_tells_it(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    assert noted_command(repository, train="import ray") == [*RUN, "--", *TRAIN]


def test_requirements_of_the_directory_of_a_script_are_named(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "scripts" / "requirements.txt").touch()
    monkeypatch.chdir(repository)
    words = noted_command(repository, train="import numpy")
    assert words == [*RUN, "--requirements", "scripts/requirements.txt", "--", *TRAIN]


def test_note_on_imports_names_the_options_too(repository: Path) -> None:
    (repository / "scripts" / "requirements.txt").touch()
    (repository / "scripts" / "near.py").write_text("import torch.distributed")
    (repository / "scripts" / "train.py").write_text("import near, helpers")
    note = unsent_files.note_on_imports(script.gather(["python", str(repository / "scripts" / "train.py")]))
    options = "--env PYTHONPATH=scripts --launcher torchrun --requirements scripts/requirements.txt"
    assert f"`orchestrator run {options} -- python -m scripts.train`" in note


def test_program_that_is_no_module_is_told_where_to_copy_files(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "scripts" / "start.sh").touch()
    monkeypatch.chdir(repository)
    sh, elsewhere = ["bash", "scripts/start.sh", "helpers.py"], ["python", "../mine/__init__.py", "near.py"]
    assert f"copy it to {repository}/scripts and" in unsent_files.note_on_arguments(script.gather(sh))
    monkeypatch.chdir(repository / "scripts")
    assert "copy it to " in unsent_files.note_on_arguments(script.gather(elsewhere))


@pytest.mark.parametrize("program", [["helpers.py"], ["-m", "scripts.near"]])
@pytest.mark.parametrize("value", [".hidden", "raw", "raw/x.csv", "{0}/raw/x.csv"])
def test_arguments_that_name_ignored_files_are_noted(
    repository: Path, monkeypatch: pytest.MonkeyPatch, program: list[str], value: str
) -> None:
    monkeypatch.chdir(repository)
    (repository / "raw").mkdir()
    for name, text in {".hidden": "", "raw/x.csv": "", ".orchestratorignore": "raw/\n"}.items():
        (repository / name).write_text(text)
    value = value.format(repository)
    note = unsent_files.note_on_arguments(script.gather(["python", *program, f"--data={value}", "--out=scripts"]))
    assert note.startswith(f"{value}: not sent, since hidden, a cache or in .orchestratorignore")
    assert note.endswith(f"`orchestrator cp {value} head:/shared/` and name /shared/{Path(value).name}")


def test_paths_of_this_machine_to_sent_files_are_noted(project: Path) -> None:
    for value in (str(project / "near.py"), "../scripts/near.py"):
        note = unsent_files.note_on_arguments(script.gather(["python", "train.py", "--data", value]))
        assert note.startswith(f"{value}: the nodes have no such path: ")
        assert f"name it near.py, relative to {project}" in note


def test_empty_directories_and_credentials_are_not_noted(project: Path) -> None:
    (project / "checkpoints").mkdir()
    for name in ("my.key", ".env"):
        (project / name).touch()
    argv = ["python", "train.py", "checkpoints", "--key=my.key", ".env"]
    assert unsent_files.note_on_arguments(script.gather(argv)) == ""


def test_modules_of_the_current_directory_are_sent(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "scripts" / "train.py").write_text("import mine")
    monkeypatch.chdir(repository)
    assert unsent_files.note_on_imports(script.gather(["python", "-m", "scripts.train"])) == ""
