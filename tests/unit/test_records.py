"""What is fetched of a run: by one command at a time."""

from orchestrator import records, state
from tests import waiting
from tests.unit.conftest import Start

FETCH = """
from orchestrator import records, state
with records._fetching(state.home("demo").runs / "a", 60):
    print("fetching")
"""


def test_a_second_command_waits_for_the_one_that_fetches_the_run(start: Start) -> None:
    target = state.home("demo").runs / "a"
    with records._fetching(target, 60) as temporary:
        assert temporary.parent == target
        said = target / "said"
        second = start("-c", FETCH, output=said)
        assert waiting.until(lambda: "Waiting for another command that fetches this run" in said.read_text())
        assert "fetching\n" not in said.read_text()
    assert second.wait() == 0
    assert said.read_text().endswith("fetching\n")


def test_what_a_killed_command_had_fetched_of_a_run_is_removed() -> None:
    target = state.home("demo").runs / "a"
    (target / ".collecting-abc" / "checkpoints").mkdir(parents=True)
    with records._fetching(target, 60):
        assert not (target / ".collecting-abc").exists()
    assert [path.name for path in target.iterdir()] == [".lock"]
