"""Packages on the control side: the head's answers, messages for the user, and removal."""

from collections.abc import Iterator

import pytest

from orchestrator import state
from orchestrator.errors import CommandFailed, ConfigError, ContractError, OrchestratorError, PreflightError, StateError
from orchestrator.progress import Step
from orchestrator.runs import package_overlays, packages, store
from orchestrator.runs.requirements import Requirements
from orchestrator.schema.packages import (
    Overlay,
    Overlays,
    PackageConflict,
    PackagesMessage,
    PackagesProblem,
)
from orchestrator.ssh import Session
from tests import builders
from tests.stand_ins import ssh_stand_in

HASH, OTHER = "0123456789ab", "0123456789cd"
ASKED = Requirements("requirements.txt", ["emoji"], ["emoji"])


def overlay(name: str = HASH) -> Overlay:
    return Overlay(
        hash=name,
        base=name,
        source="requirements.txt",
        asked=["emoji"],
        packages={"emoji": "2"},
        bytes=1 << 20,
        made=1.0,
    )


def answer_with(*messages: PackagesMessage | str) -> ssh_stand_in.Answer:
    """Return the answer of a head whose installer prints these lines."""
    lines = [m if isinstance(m, str) else m.model_dump_json(exclude_none=True) for m in messages]
    return lambda command: "".join(f"{line}\n" for line in lines).encode() if packages.PROGRAM in command else None


def install(*messages: PackagesMessage | str) -> Overlay:
    with ssh_stand_in.session(answer_with(*messages)) as head:
        request = packages._request((HASH, HASH), ASKED, "/shared/packages/.incoming-1")
        return packages._install(head, request, Step("Installing"))


def problem(**values: object) -> OrchestratorError:
    with pytest.raises(OrchestratorError) as caught:
        install(PackagesMessage(say="Collecting"), PackagesMessage(problem=PackagesProblem.model_validate(values)))
    return caught.value


def test_overlay_follows_any_progress() -> None:
    assert install(PackagesMessage(say="Collecting"), PackagesMessage(overlay=overlay())) == overlay()


def test_conflict_names_both_versions_and_the_remedy() -> None:
    needs = {"installed": "2.4.6", "needed_by": "tensorflow", "name": "numpy"}
    conflicts = [PackageConflict(wanted="numpy==1.26.4", **needs), PackageConflict(wanted="numpy<2", by="a 1", **needs)]
    error = problem(kind="conflict", conflicts=conflicts)
    assert isinstance(error, ConfigError)
    assert error.problems == [
        "requirements.txt: numpy==1.26.4: the image has numpy 2.4.6, which tensorflow needs",
        "requirements.txt: a 1 needs numpy<2: the image has numpy 2.4.6, which tensorflow needs",
    ]
    assert "--no-packages" in error.hint


def test_unreachable_index_names_the_option_for_offline_clusters() -> None:
    error = problem(kind="offline", lines=["no route"])
    assert isinstance(error, PreflightError)
    assert "--wheels DIR" in error.hint
    assert "no route" in error.message


def test_missing_package_is_named_and_other_failures_quote_pip() -> None:
    assert "emoji" in problem(kind="missing", package="emoji").message
    failed = problem(kind="failed", lines=["gcc: not found"])
    assert isinstance(failed, CommandFailed)
    assert "gcc: not found" in failed.message
    assert "--no-packages" in failed.hint


def test_conflict_without_a_package_is_refused() -> None:
    failed = problem(kind="conflict", lines=["pip's last line"])
    assert isinstance(failed, ContractError)
    assert "pip's last line" in failed.message


@pytest.mark.parametrize("line", ["nonsense", '{"overlay": {"hash": "../../etc"}}', '{"say": 1}', "x" * (2 << 20)])
def test_unexpected_answer_of_the_head_is_refused(line: str) -> None:
    with pytest.raises(ContractError):
        install(line)


def test_empty_answer_of_the_head_is_refused() -> None:
    with pytest.raises(ContractError, match="does not report"):
        install()


def test_index_passwords_are_sent_on_standard_input_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:secret@index.example/simple")
    commands = list[str]()

    def answer(command: str) -> bytes:
        commands.append(command)
        return (PackagesMessage(overlay=overlay()).model_dump_json(exclude_none=True) + "\n").encode()

    with ssh_stand_in.session(answer) as head:
        request = packages._request((HASH, HASH), ASKED, "/there")
        packages._install(head, request, Step("Installing"))
    assert request.environment["PIP_INDEX_URL"] == "https://user:secret@index.example/simple"
    assert "secret" not in str(commands)


def test_wheels_are_installed_without_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    request = packages._request((HASH, HASH), Requirements("requirements.txt", wheels=True), "/there")
    assert (request.wheels, request.environment) == ("/there/wheels", {})


@pytest.fixture
def head() -> Iterator[tuple[Session, list[str]]]:
    """Return a head with two overlays, and the commands that it gets; ``active`` is the run in progress."""
    commands = list[str]()

    def answer(command: str) -> bytes:
        commands.append(command)
        if "systemctl" in command:
            return b"orchestrator-resnet20-mnist-1.service loaded active running\n"
        return Overlays(overlays=[overlay(), overlay(OTHER)]).model_dump_json().encode()

    with ssh_stand_in.session(answer) as session:
        yield session, commands


def removals(commands: list[str]) -> list[str]:
    return [word for command in commands for word in command.split() if word in (HASH, OTHER, "--all")]


@pytest.mark.parametrize(("name", "removed"), [(HASH, [HASH]), (OTHER[-12:], [OTHER]), (None, [HASH, OTHER])])
def test_overlays_are_removed_by_hash_or_all(
    head: tuple[Session, list[str]], name: str | None, removed: list[str]
) -> None:
    state_dir = state.for_cluster("demo")
    store.save(state_dir, builders.run())
    assert [each.hash for each in package_overlays.remove(state_dir, head[0], name)] == removed
    assert removals(head[1]) == (["--all"] if name is None else removed)


@pytest.mark.parametrize("name", ["0123456789", "fff", ""])
def test_unknown_or_ambiguous_hash_is_refused(head: tuple[Session, list[str]], name: str) -> None:
    with pytest.raises(ConfigError, match="packages: "):
        package_overlays.remove(state.for_cluster("demo"), head[0], name)
    assert removals(head[1]) == []


def test_empty_hash_does_not_mean_the_only_overlay() -> None:
    """The name comes from a variable that is not set."""

    def answer(_: str) -> bytes:
        return Overlays(overlays=[overlay()]).model_dump_json().encode()

    with ssh_stand_in.session(answer) as only, pytest.raises(ConfigError, match="packages: '': no such packages"):
        package_overlays.remove(state.for_cluster("demo"), only, "")


@pytest.mark.parametrize("recorded", [True, False])
def test_overlays_of_a_run_in_progress_are_not_removed(head: tuple[Session, list[str]], recorded: bool) -> None:
    state_dir = state.for_cluster("demo")
    if recorded:
        store.save(state_dir, builders.run(packages=f"/shared/packages/{HASH}"))
    with pytest.raises(StateError, match="run resnet20-mnist-1 is using them"):
        package_overlays.remove(state_dir, head[0], None)
    assert removals(head[1]) == []


def test_last_use_is_the_newest_run_with_the_overlay() -> None:
    state_dir = state.for_cluster("demo")
    assert package_overlays.last_used(store.list_runs(state_dir), overlay()) is None
    for number, name in enumerate((HASH, HASH, OTHER)):
        run = builders.run(id=f"script-{number}", started=float(number), packages=f"/shared/packages/{name}")
        store.save(state_dir, run)
    assert package_overlays.last_used(store.list_runs(state_dir), overlay()) == 1.0
