"""Order and number of launches: rounds, the A/A pair, wide intervals, failures, busy machines."""

import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config import Config
from orchestrator.schema.studies import Launch
from orchestrator.studies import launch_schedule, progress_messages, time_and_cost
from orchestrator.studies.launch_schedule import Planned, Schedule
from orchestrator.studies.round_ratios import by_round
from orchestrator.studies.study_definition import Study
from tests.unit.studies.studies import cells, finish, launch, study


def started_schedule(of: Study, launches: Sequence[Launch] = ()) -> tuple[Schedule, list[Launch]]:
    journal = list(launches)
    return Schedule(of, cells(of), journal), journal


def sizes(order: Sequence[Planned]) -> list[tuple[int, bool]]:
    return [(planned.contestant.cell.ranks, planned.contestant.again) for planned in order]


def test_every_other_round_is_reversed_and_has_an_a_a_cell() -> None:
    order = finish(*started_schedule(study(repetitions=3)))
    forward = [(1, False), (2, False), (1, True)]
    assert sizes(order) == [*forward, *reversed(forward), *forward]
    assert [planned.round for planned in order] == [0] * 3 + [1] * 3 + [2] * 3


def test_cluster_grows_through_a_round_and_shrinks_in_the_next() -> None:
    of = study(models=["lenet", "resnet20"], ranks=None, nodes=[4, 1, 2], repetitions=2)
    nodes = [planned.contestant.cell.nodes for planned in finish(*started_schedule(of))]
    assert nodes == [1, 1, 1, 2, 2, 4, 4, 4, 4, 2, 2, 1, 1, 1]


def test_largest_cluster_shrinks_first_also_after_a_kill() -> None:
    of, launches = study(models=["lenet", "resnet20"], ranks=None, nodes=[1, 2], repetitions=2), list[Launch]()
    whole = Schedule(of, cells(of), launches, nodes=2)
    order = finish(whole, launches)
    assert [planned.contestant.cell.nodes for planned in order] == [2, 2, 1, 1, 1, 1, 1, 1, 2, 2]
    for killed in range(1, len(order)):
        assert Schedule(of, cells(of), launches[:killed], nodes=1).remaining() == order[killed:]


def test_launch_is_repeated_before_the_number_of_nodes_changes() -> None:
    of, launches = study(ranks=None, nodes=[1, 2], repetitions=1), list[Launch]()
    busy, nodes = Schedule(of, cells(of), launches, nodes=1), []
    while planned := busy.next():
        nodes.append(planned.contestant.cell.nodes)
        launches.append(launch(planned, busy=0.5))
    assert nodes == [1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(("nodes", "changes"), [(1, [2, 4, 2, 1]), (4, [2, 1, 2, 4]), (3, [1, 2, 4, 2, 1])])
def test_deploys_of_a_study_are_as_few_as_possible(nodes: int, changes: list[int]) -> None:
    of = study(ranks=None, nodes=[4, 1, 2], repetitions=2)
    sizes_of_deploys = launch_schedule.deploys(Schedule(of, cells(of), [], nodes).remaining(), nodes)
    assert [change for change in sizes_of_deploys if change] == changes


@pytest.mark.parametrize("killed", range(1, 18))
def test_schedule_continues_after_the_last_recorded_launch(killed: int) -> None:
    of = study(repetitions={"width": 0.2, "at_least": 6, "at_most": 8})
    speed = {0: 100.0, 1: 150.0, 2: 90.0}
    whole, launches = started_schedule(of)
    order = finish(whole, launches, lambda planned: speed[planned.round % 3])
    resumed, journal = started_schedule(of, launches[:killed])
    rest = finish(resumed, journal, lambda planned: speed[planned.round % 3])
    assert order[killed:] == rest


def test_launches_continue_until_the_ratio_is_narrow_enough() -> None:
    of = study(repetitions={"width": 0.05, "at_least": 6, "at_most": 20})
    steady, launches = started_schedule(of)
    assert len(finish(steady, launches)) == 6 * 3
    noisy, launches = started_schedule(of)
    order = finish(noisy, launches, lambda p: 100.0 * (1 + p.round % 5 * (p.contestant.cell.ranks == 2)))
    counted = Counter(sizes(order))
    assert counted[2, False] == counted[1, False] == 20  # the base case continues with the cell that needs it
    assert counted[1, True] == 6


def test_failed_launch_is_repeated_once_then_cell_is_given_up() -> None:
    failing, launches = started_schedule(study(repetitions=3))
    order = finish(failing, launches, lambda p: 0.0 if p.contestant.cell.ranks == 2 else 100.0)
    assert Counter(sizes(order)) == {(1, False): 3, (1, True): 3, (2, False): 2}
    assert list(failing.given_up().values()) == ["rank 0 raised an error"]


def of_two_ranks(planned: Planned) -> bool:
    return planned.contestant.cell.ranks == 2


@pytest.mark.parametrize(("repaired", "tries"), [(True, 3), (False, 1)])
def test_resumed_study_tries_cells_again_that_were_given_up(repaired: bool, tries: int) -> None:
    of, launches = study(repetitions=3), list[Launch]()
    finish(Schedule(of, cells(of), launches), launches, lambda p: 0.0 if of_two_ranks(p) else 100.0)
    assert Schedule(of, cells(of), launches).next() is None
    resumed = Schedule(of, cells(of), launches, resumed=len(launches))
    assert resumed.given_up() == {}
    order = finish(resumed, launches, lambda _: 100.0 if repaired else 0.0)
    assert sizes(order) == [(2, False)] * tries
    assert list(resumed.problems()) == ([] if repaired else ["ours: lenet on mnist, 2 ranks"])


def test_failed_launch_that_then_succeeds_keeps_its_cell() -> None:
    tries = iter([0.0] + [100.0] * 20)
    once, launches = started_schedule(study(repetitions=2))
    assert len(finish(once, launches, lambda _: next(tries))) == 7
    assert once.given_up() == {}


def test_launch_on_a_busy_machine_is_repeated_after_its_round() -> None:
    busy, launches = started_schedule(study(repetitions=1, busy_repeats=1))
    order = []
    while planned := busy.next():
        order.append(planned)
        launches.append(launch(planned, busy=0.5 if planned.contestant.cell.ranks == 2 else 0.0))
    assert sizes(order) == [(1, False), (2, False), (1, True), (2, False)]


def test_launch_on_the_least_busy_machine_counts() -> None:
    of = study(repetitions=1)
    planned = started_schedule(of)[0].next()
    assert planned
    tries = [
        launch(planned, images, busy=share) for images, share in ((1, 0.5), (2, 0.2), (3, 0.2), (4, 0.9), (None, 0))
    ]
    assert by_round(tries, planned.contestant.key) == {0: 3}


def test_remaining_launches_count_down_to_zero() -> None:
    of, remaining = study(repetitions=2), []
    counting, launches = started_schedule(of)
    while planned := counting.next():
        remaining.append(len(counting.remaining()))
        launches.append(launch(planned))
    assert [*remaining, len(counting.remaining())] == [6, 5, 4, 3, 2, 1, 0]


def test_complete_study_with_a_width_has_no_launch_left() -> None:
    complete, launches = started_schedule(study(repetitions={"width": 0.5, "at_least": 6, "at_most": 8}))
    assert progress_messages.remaining(complete) == "at least 18 launches left"
    finish(complete, launches)
    assert progress_messages.remaining(complete) == "0 launches left, about 0:00:00"


def test_most_launches_are_those_until_at_most_rounds() -> None:
    of, most = study(repetitions={"width": 0.05, "at_least": 6, "at_most": 8}), []
    wide, launches = started_schedule(of)
    while planned := wide.next():
        most.append(wide.most())
        launches.append(launch(planned, 100.0 * (1 + planned.round % 3 * of_two_ranks(planned))))
    assert most[: 6 * 3] == list(range(8 * 3, 2 * 3, -1))
    assert most[6 * 3 :] == [4, 3, 2, 1]  # the second base case has a narrow interval
    assert wide.most() == 0


WIDE = {"width": 0.02, "at_least": 6, "at_most": 9}
STUDIES = {
    "one base case": study(repetitions=WIDE),
    "a cell without a base case": study(
        models=["lenet", "resnet20"], exclude=[{"model": "resnet20", "ranks": 1}], repetitions=WIDE
    ),
    "a base case of no other cell": study(
        options={"precision": ["float32", "bfloat16"]},
        exclude=[{"ranks": 2, "precision": "bfloat16"}],
        repetitions=WIDE,
    ),
    "engines": study(engines=["ours", "torch-ddp", "ray-torch"], ranks=[2], repetitions=WIDE),
    "nodes": study(models=["lenet", "resnet20"], ranks=None, nodes=[4, 1, 2], repetitions=WIDE),
    "one cell": study(ranks=1, repetitions=WIDE),
    "limits without a width": study(repetitions={"at_least": 3, "at_most": 9}),
    "a number": study(repetitions=4),
}


def uneven(planned: Planned) -> float:
    """Return images per second by which no interval becomes narrow."""
    return random.Random(f"{planned.contestant.key} {planned.round}").uniform(10.0, 1000.0)  # noqa: S311


@pytest.mark.parametrize("of", STUDIES.values(), ids=STUDIES)
def test_most_launches_are_made_if_no_interval_becomes_narrow(of: Study) -> None:
    schedule, launches = started_schedule(of)
    most = []
    while planned := schedule.next():
        most.append(schedule.most())
        launches.append(launch(planned, uneven(planned)))
    assert most == list(range(len(most), 0, -1))
    assert schedule.most() == 0


@pytest.mark.parametrize("of", STUDIES.values(), ids=STUDIES)
@pytest.mark.parametrize("failing", [0, -1], ids=["the first cell fails", "the last cell fails"])
def test_most_launches_leave_out_cells_that_are_given_up(of: Study, failing: int) -> None:
    schedule, launches = started_schedule(of)
    lost, most = cells(of)[failing].key, []
    while planned := schedule.next():
        if schedule.given_up():
            most.append(schedule.most())
        fails = planned.contestant.cell.key == lost and planned.round == of.repetitions.at_least - 1
        launches.append(launch(planned, None if fails else uneven(planned)))
    assert most == list(range(len(most), 0, -1))
    resumed = Schedule(of, cells(of), launches, resumed=len(launches))
    expected, before = resumed.most(), len({(each.key, each.again, each.round) for each in launches})
    finish(resumed, launches, uneven)
    assert len({(each.key, each.again, each.round) for each in launches}) - before == expected


@pytest.mark.parametrize("of", STUDIES.values(), ids=STUDIES)
def test_no_more_launches_than_the_most_are_made(of: Study) -> None:
    schedule, launches = started_schedule(of)
    most = []
    while planned := schedule.next():
        most.append(schedule.most())
        launches.append(launch(planned, 100.0 + uneven(planned) / 500.0))  # some intervals become narrow
    assert all(left <= expected for left, expected in zip(range(len(most), 0, -1), most, strict=True))


def test_repeats_are_announced_and_part_of_the_remaining_time() -> None:
    busy, launches = started_schedule(study(repetitions=1, busy_repeats=1))
    lines = []
    while planned := busy.next():
        lines.append(progress_messages.remaining(busy))
        launches.append(launch(planned, busy=0.5 if planned.contestant.cell.ranks == 2 else 0.0))
    assert lines == [
        "3 launches left",
        "2 launches left, about 0:00:20",
        "1 launch left, repeating 1 of 2 launches: other programs used the machine, about 0:00:20",
        "repeating 1 of 3 launches: other programs used the machine, about 0:00:10",
    ]
    assert progress_messages.remaining(busy) == "0 launches left, about 0:00:00"


def test_expected_repeats_follow_the_share_so_far() -> None:
    busy, launches = started_schedule(study(repetitions=2, busy_repeats=1))
    for _ in range(4):
        planned = busy.next()
        assert planned
        launches.append(launch(planned, busy=0.5 if planned.contestant.cell.ranks == 2 else 0.0))
    assert (len(busy.remaining()), busy.expected()) == (3, 4.0)
    assert progress_messages.remaining(busy) == "3 launches left, about 0:00:40"


def test_failed_launch_is_announced_as_repeated() -> None:
    failing, launches = started_schedule(study(repetitions=1))
    finished = [
        launch(planned, images) for planned, images in zip(failing.remaining(), (0.0, 100.0, 100.0), strict=True)
    ]
    launches += finished
    assert progress_messages.remaining(failing) == "repeating 1 of 3 launches: they failed, about 0:00:10"


def test_certain_launches_are_first_rounds_and_due_repeats() -> None:
    of = study(repetitions={"width": 0.05, "at_least": 6, "at_most": 20})
    fresh, launches = started_schedule(of)
    assert len(fresh.certain()) == 6 * 3
    launches += [launch(planned, busy=0.5 * (planned.round == 0)) for planned in fresh.certain()]
    resumed, _ = started_schedule(of, launches)
    assert [each.round for each in resumed.certain()] == [0] * 3
    launches += [launch(planned) for planned in resumed.certain()]
    assert started_schedule(of, launches)[0].certain() == []


@pytest.mark.parametrize("changes", [{"busy": 0.5}, {"problem": "rank 0 raised an error"}], ids=["busy", "failed"])
def test_repeats_of_all_rounds_that_the_head_made_are_certain(changes: dict[str, Any]) -> None:
    of = study(repetitions=3, busy_repeats=1)
    fresh, launches = started_schedule(of)
    launches += [launch(planned, **changes if of_two_ranks(planned) else {}) for planned in fresh.certain()]
    resumed, _ = started_schedule(of, launches)
    repeats = resumed.certain()
    assert [planned.round for planned in repeats] == [0, 1, 2]
    assert sizes(repeats) == [(2, False)] * 3
    assert progress_messages.remaining(resumed).startswith("repeating 3 of 9 launches: ")
    launches += [launch(planned) for planned in repeats]
    assert started_schedule(of, launches)[0].certain() == []


def test_plan_of_many_launches_computes_the_key_of_a_cell_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, sha256 = list[bytes](), hashlib.sha256

    def hashed(text: bytes) -> "hashlib._Hash":
        keys.append(text)
        return sha256(text)

    monkeypatch.setattr(hashlib, "sha256", hashed)
    of = study(batch=list(range(1, 21)), repetitions=100)
    planned = time_and_cost.plan(Config(), of, cells(of), tmp_path)
    assert (planned.launches, len(planned.order)) == (41 * 100, 41 * 2)
    assert len(keys) < 10 * len(planned.cells)
