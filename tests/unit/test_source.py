"""A script of the user's own: what is sent, and the command as it reads on the nodes."""

from pathlib import Path

import pytest

from orchestrator import source
from orchestrator.errors import ConfigError


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a script, a module and what no one wants to send."""
    root = tmp_path / "project"
    for name in ("train.py", "model/net.py", ".git/config", ".env", ".venv/bin/python", "model/__pycache__/net.pyc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("pass\n")
    monkeypatch.chdir(root)
    return root


def test_a_script_is_sent_with_its_directory_and_named_from_inside_it(project: Path) -> None:
    argv = ["python", "train.py", "--lr", "0.1"]
    assert source.locate(argv) == (project, argv)


def test_a_script_elsewhere_is_named_without_its_directory(project: Path) -> None:
    assert source.locate(["python", "model/net.py", "-v"]) == (project / "model", ["python", "net.py", "-v"])


def test_a_program_that_is_a_file_here_is_run_from_its_directory(project: Path) -> None:
    (project / "go").touch(mode=0o755)
    assert source.locate(["./go", "fast"]) == (project, ["./go", "fast"])


def test_a_module_is_run_from_the_directory_one_stands_in(project: Path) -> None:
    argv = ["python", "-m", "model.net"]
    assert source.locate(argv) == (project, argv)


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["python", "trian.py"], "run: trian.py: no such file"),
        (["missing.py"], "run: missing.py: no such file"),
        (["./train.py"], "run: ./train.py: is not executable: `orchestrator run -- python ./train.py`"),
        (["python", "--version"], "run: no script in `python --version`"),
        (["python", "-c", "1;" * 2000], "run: no script in `python -c 1;1;"),
        ([], "run: nothing to run"),
    ],
)
def test_a_command_without_a_script_that_is_there_is_refused(argv: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        source.locate(argv)
    assert caught.value.problems[0].startswith(problem)


def test_sources_are_sent_without_caches_environments_and_history(project: Path) -> None:
    assert sorted(source.files(project)) == ["model/net.py", "train.py"]


def test_credentials_that_lie_beside_a_script_are_not_sent(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("clouds.yaml", "model/secure.yaml", "clouds-public.yml", "demo-openrc-v3.sh", "cluster.yaml"):
        (project / name).touch()
    for name in ("mine.yaml", "lab.yaml", "key.json", "other.json"):
        (project / name).touch()
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(project / "mine.yaml"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "key.json")
    monkeypatch.setenv("GOOGLE_CREDENTIALS", '{"type": "service_account"}' * 200)  # the contents, not a path
    assert sorted(source.files(project, Path("lab.yaml"))) == ["model/net.py", "other.json", "train.py"]


def test_links_are_followed_but_not_in_a_circle(project: Path, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "shared.py").touch()
    (project / "linked").symlink_to(tmp_path / "library")
    (project / "round").symlink_to(project)
    assert sorted(source.files(project)) == ["linked/shared.py", "model/net.py", "train.py"]


def test_a_script_behind_a_link_is_sent_with_the_directory_of_the_link(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").touch()
    (project / "link.py").symlink_to(tmp_path / "elsewhere.py")
    assert source.locate(["python", "link.py"]) == (project, ["python", "link.py"])


def test_a_script_that_is_a_program_is_run_as_one(project: Path) -> None:
    (project / "train.py").chmod(0o755)
    assert source.locate(["./train.py"]) == (project, ["./train.py"])


def test_a_program_that_cannot_be_executed_is_refused_with_what_makes_it_one(project: Path) -> None:
    (project / "go").touch(mode=0o644)
    with pytest.raises(ConfigError) as caught:
        source.locate(["./go"])
    assert caught.value.problems == ["run: ./go: is not executable: `chmod +x ./go`"]


def test_a_file_that_is_gone_while_it_is_looked_at_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = project / "gone"
    monkeypatch.setattr(source, "_walk", lambda directory, above: iter([gone]))
    with pytest.raises(ConfigError, match=f"run: {gone}: No such file"):
        source.files(project)


def test_a_directory_with_more_than_a_scripts_worth_is_refused_with_the_limit(project: Path) -> None:
    with (project / "weights").open("wb") as file:
        file.truncate(source.MOST + 1)  # without taking the space
    with pytest.raises(ConfigError, match="more than 200 MiB"):
        source.files(project)
