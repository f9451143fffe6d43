"""The script that a command names, and the command on the nodes."""

from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.runs.locate_script import locate

pytestmark = pytest.mark.usefixtures("project")


def test_script_is_sent_with_its_directory_and_relative_name(project: Path) -> None:
    argv = ["python", "train.py", "--lr", "0.1"]
    assert locate(argv) == (project, argv, "train.py")


def test_script_elsewhere_is_named_without_its_directory(project: Path) -> None:
    assert locate(["python", "model/net.py", "-v"]) == (project / "model", ["python", "net.py", "-v"], "net.py")


def test_script_whose_name_is_like_an_option_is_no_option(project: Path) -> None:
    (project / "-m.py").touch()
    assert locate(["python", "./-m.py"]) == (project, ["python", "./-m.py"], "-m.py")


def test_local_program_runs_in_its_directory(project: Path) -> None:
    (project / "go").touch(mode=0o755)
    assert locate(["./go", "fast"]) == (project, ["./go", "fast"], "go")


def test_module_runs_in_the_working_directory(project: Path) -> None:
    for argv in (["python", "-m", "model.net"], ["python", "-mmodel.net"], ["env", "A=1", "python3", "-mmodel.net"]):
        assert locate(argv) == (project, argv, "")


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["python", "trian.py"], "run: trian.py: no such file"),
        (["missing.py"], "run: missing.py: no such file"),
        (["python", "--version"], "run: no script in `python --version`"),
        (["python", "-c", "1;" * 2000], "run: no script in `python -c 1;1;"),
        ([], "run: nothing to run"),
        (["torchrun", "train.py"], "run: torchrun: is a launcher"),
        (["/opt/bin/torchrun", "train.py"], "run: /opt/bin/torchrun: is a launcher"),
        (["env", "OMP_NUM_THREADS=1", "torchrun", "train.py"], "run: torchrun: is a launcher"),
        (["accelerate", "launch", "train.py"], "run: accelerate: is a launcher"),
        (["deepspeed", "train.py"], "run: deepspeed: is a launcher"),
        (["mpirun.openmpi", "python", "train.py"], "run: mpirun.openmpi: is a launcher"),
        (["orterun", "python", "train.py"], "run: orterun: is a launcher"),
        (["python", "-m", "torch.distributed.run", "train.py"], "run: -m torch.distributed.run: is a launcher"),
        (["python", "-m", "torch.distributed.launch", "train.py"], "run: -m torch.distributed.launch: is a launcher"),
        (["python", "-m", "accelerate.commands.launch", "train.py"], "run: -m accelerate.commands.launch: is a"),
        (["python", "-m", "deepspeed.launcher.runner", "train.py"], "run: -m deepspeed.launcher.runner: is a"),
        (["python", "-m", "horovod.runner", "train.py"], "run: -m horovod.runner: is a launcher"),
        (["python", "-mtorch.distributed.run", "train.py"], "run: -m torch.distributed.run: is a launcher"),
        (["srun", "python", "train.py"], "run: srun: is a launcher"),
        (["uv", "run", "train.py"], "run: uv run: starts programs of this machine's environment"),
        (["conda", "run", "-n", "mine", "python", "train.py"], "run: conda run: starts programs of"),
        (["KERAS_BACKEND=jax", "python", "train.py"], "run: KERAS_BACKEND=...: is a variable, not a program"),
    ],
)
def test_command_without_an_existing_script_is_refused(argv: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        locate(argv)
    assert caught.value.problems[0].startswith(problem)


@pytest.mark.parametrize(
    ("argv", "remedy"),
    [
        (["torchrun", "--nproc_per_node", "2", "train.py", "--lr", "1"], "python train.py --lr 1`"),
        (["python", "-m", "torch.distributed.run", "--nproc_per_node", "2", "train.py"], "python train.py`"),
        (["torchrun", "--nproc_per_node=2", "-m", "model.net", "-v"], "python -m model.net -v`"),
        (["mpirun", "-np", "2", "./go"], "python my_script.py`"),
        (["poetry", "run", "python", "train.py", "--lr", "1"], "python train.py --lr 1`"),
    ],
)
def test_refused_launcher_names_the_command_without_it(argv: list[str], remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        locate(argv)
    assert caught.value.hint.startswith(f"`orchestrator run -- {remedy}")


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["accelerate", "launch", "--mixed_precision", "bf16", "train.py"], True),
        (["python", "-m", "accelerate.commands.launch", "train.py"], True),
        (["torchrun", "accelerate.py"], False),
    ],
)
def test_settings_of_accelerate_are_named_as_lost(project: Path, argv: list[str], named: bool) -> None:
    with pytest.raises(ConfigError) as caught:
        locate(argv)
    assert ("set them in Accelerator(...)" in caught.value.hint) == named


def test_program_named_like_a_launcher_is_accepted(project: Path) -> None:
    for name in ("accelerate", "deepspeed"):
        (project / name).touch(mode=0o755)
    for command in (["./accelerate", "fast"], ["bash", "deepspeed"], ["env", "SEED=1", "./accelerate"]):
        directory, words, _ = locate(command)
        assert directory == project
        assert [word.removeprefix("./") for word in words] == [word.removeprefix("./") for word in command]


def test_launcher_of_a_virtual_environment_is_refused(project: Path) -> None:
    (project / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    (project / ".venv" / "bin" / "torchrun").touch(mode=0o755)
    with pytest.raises(ConfigError, match=r"run: \.venv/bin/torchrun: is a launcher"):
        locate([".venv/bin/torchrun", "train.py"])


def test_script_and_module_named_like_a_launcher_are_accepted(project: Path) -> None:
    (project / "torchrun.py").touch()
    for argv in (
        ["python", "torchrun.py", "-m", "torch.distributed.run"],
        ["python", "-m", "torch.distributed.runner"],
    ):
        assert locate(argv)[:2] == (project, argv)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([".venv/bin/python"], ["python"]),
        (["venv/bin/python3.12"], ["python"]),
        (["/usr/bin/env", "python"], ["env", "python"]),
        (["env", "SEED=1", ".venv/bin/python3"], ["env", "SEED=1", "python"]),
        (
            ["env", "TOOL=/usr/bin/python3", "RUN=/usr/bin/mpirun", "python"],
            ["env", "TOOL=/usr/bin/python3", "RUN=/usr/bin/mpirun", "python"],
        ),
        (["/bin/bash"], ["bash"]),
    ],
)
def test_path_to_an_interpreter_is_not_the_script(project: Path, words: list[str], name: list[str]) -> None:
    for directory in (".venv/bin", "venv/bin"):
        for interpreter in ("python", "python3", "python3.12"):
            (project / directory).mkdir(parents=True, exist_ok=True)
            (project / directory / interpreter).touch(mode=0o755)
    assert locate([*words, "model/net.py", "-v"]) == (project / "model", [*name, "net.py", "-v"], "net.py")


@pytest.mark.parametrize("argv", [["yolo", "train", "data=a.yaml"], ["make", "train"]])
def test_installed_program_is_refused_with_the_remedy(project: Path, argv: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        locate(argv)
    assert "`orchestrator run -- bash start.sh`" in caught.value.hint


def test_linked_script_is_sent_with_the_directory_of_the_link(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").touch()
    (project / "link.py").symlink_to(tmp_path / "elsewhere.py")
    assert locate(["python", "link.py"]) == (project, ["python", "link.py"], "link.py")


@pytest.mark.parametrize("mode", [0o644, 0o755])  # drives of Windows have only executable files
def test_python_runs_a_file_in_python_that_is_named_alone(project: Path, mode: int) -> None:
    (project / "train.py").chmod(mode)
    for word in ("train.py", "./train.py", str(project / "train.py")):
        assert locate([word, "--lr", "1"]) == (project, ["python", "train.py", "--lr", "1"], "train.py")
        assert locate(["env", "A=1", word]) == (project, ["env", "A=1", "python", "train.py"], "train.py")


def test_executable_file_is_run_as_a_program(project: Path) -> None:
    (project / "start").touch(mode=0o755)
    assert locate(["./start"])[:2] == (project, ["./start"])
    assert locate(["env", "A=1", "model/../start", "-v"])[:2] == (
        project / "model" / "..",
        ["env", "A=1", "./start", "-v"],
    )


def test_non_executable_program_is_refused_with_the_remedy(project: Path) -> None:
    for name, shown in {"./go": "./go", "./my script": "'./my script'"}.items():
        (project / name).touch(mode=0o644)
        for before in ([], ["env", "A=1"]):
            with pytest.raises(ConfigError) as caught:
                locate([*before, name])
            assert caught.value.problems == [f"run: {name}: is not executable: `chmod +x {shown}`"]


@pytest.mark.parametrize("before", [[], ["python"], ["env", "A=1", "python3"]])
def test_notebook_is_refused_with_the_remedy(project: Path, before: list[str]) -> None:
    (project / "lesson.ipynb").write_text("{}")
    with pytest.raises(ConfigError) as caught:
        locate([*before, "./lesson.ipynb"])
    assert caught.value.problems == ["run: ./lesson.ipynb: is a notebook, not a script"]
    assert "`jupyter nbconvert --to script ./lesson.ipynb`" in caught.value.hint


def test_notebook_that_another_program_reads_is_sent(project: Path) -> None:
    (project / "lesson.ipynb").write_text("{}")
    command = ["papermill", "lesson.ipynb", "out.ipynb"]
    assert locate(command)[:2] == (project, command)
