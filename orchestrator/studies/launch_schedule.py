"""Order of a study's launches: rounds, every second one reversed, as many as the stopping rule wants.

The next launch follows only from the launches so far, so that a killed study continues where it stopped.
:mod:`orchestrator.studies.stopping_rule` decides when there are enough, and
:mod:`orchestrator.studies.failed_and_busy_launches` which launches are repeated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from orchestrator.schema.studies import Cell, Launch
from orchestrator.studies import failed_and_busy_launches, matrix, stopping_rule
from orchestrator.studies.contestants import Contestant, base_of, contestants
from orchestrator.studies.round_ratios import Key
from orchestrator.studies.study_definition import Study


@dataclass(frozen=True)
class Planned:
    """A launch that is to come."""

    contestant: Contestant
    round: int


class Schedule:
    """Launches of a study.

    Args:
        study: The study as it is measured.
        cells: Its cells.
        launches: The journal's list, to which ended launches are added.
        nodes: Nodes of the cluster before the first launch: a study of nodes begins with the cells that have as many.
        resumed: How many of the launches were made before the study was resumed. Cells that these gave up are tried
            again.
    """

    def __init__(
        self,
        study: Study,
        cells: Sequence[Cell],
        launches: Sequence[Launch],
        nodes: int | None = None,
        resumed: int = 0,
    ) -> None:
        self.study, self.cells, self.launches, self.resumed = study, cells, launches, resumed
        first = launches[0].cell.nodes if launches else nodes
        self.contestants = contestants(study, cells, first)
        self._rounds: list[list[Contestant]] = []  # by round; fixed once the rounds before are complete

    def next(self) -> Planned | None:
        """Return the next launch; None if the study is complete."""
        number = max(0, len(self._rounds) - 1)  # the rounds before are complete
        while in_round := self._contestants_in(number):
            for _, alike in groupby(in_round, lambda contestant: contestant.cell.nodes):
                if missing := self._missing(list(alike), number):
                    return Planned(missing, number)
            number += 1
        return None

    def _missing(self, some: Sequence[Contestant], number: int) -> Contestant | None:
        """Return the one of ``some`` to launch next in a round, repeats last; None if all were launched."""
        missing = [c for c in some if not self._of(c, number)] or [c for c in some if self._again(c, number)]
        return missing[0] if missing else None

    def remaining(self) -> list[Planned]:
        """Return the remaining launches, without repeats, if intervals become narrow as early as possible."""
        lost, launched, rounds = self.given_up(), self._launched(), self._certain_rounds()
        planned = [Planned(c, number) for number, members in enumerate(rounds) for c in members if c.key[0] not in lost]
        return [launch for launch in planned if (*launch.contestant.key, launch.round) not in launched]

    def most(self) -> int:
        """Return how many launches remain, without repeats, if no interval that can still change becomes narrow."""
        wide = stopping_rule.wide(
            self.study, self.contestants, self.cells, self.launches, self.given_up(), self._changing()
        )
        to_come = range(
            max(self.study.repetitions.at_least, len(self._started_rounds())), self.study.repetitions.at_most
        )
        later = {(*contestant.key, number) for contestant in wide for number in to_come}
        return len(self.remaining()) + len(later - self._launched())

    def _changing(self) -> set[Key]:
        """Return the contestants that a certain launch measures, or their base case in a round that measures them."""
        certain = {(*planned.contestant.key, planned.round) for planned in self.certain()}
        bases = {c.key: base.key for c in self.contestants if (base := base_of(self.study, c, self.cells))}
        return {
            (key, again)
            for key, again, number in self._launched() | certain
            if certain & {(key, again, number), (*bases.get((key, again), (key, again)), number)}
        }

    def repeats(self) -> list[Launch]:
        """Return the launches that will be repeated: they failed, or other programs used the machine."""
        return [self._of(planned.contestant, planned.round)[-1] for planned in self._repeated()]

    def certain(self) -> list[Planned]:
        """Return the launches that do not depend on other results: due repeats, and the remaining launches."""
        return self._repeated() + self.remaining()

    def _repeated(self) -> list[Planned]:
        """Return the repeats of the round of the next launch, and of later ones: a queue does not wait for repeats."""
        current, launched = len(self._started_rounds()) - 1, self._launched()
        rounds = enumerate(self._certain_rounds()[current:], current)
        tried = [Planned(c, number) for number, members in rounds for c in members if (*c.key, number) in launched]
        return [planned for planned in tried if self._again(planned.contestant, planned.round)]

    def expected(self) -> float:
        """Return how many launches are left with repeats, if as large a share of them is repeated as so far."""
        tries = len(self.launches) / len(self._launched()) if self.launches else 1.0
        return len(self.remaining()) * tries + len(self.repeats())

    def given_up(self) -> dict[str, str]:
        """Return the problems of cells that are not launched any more, by key."""
        return failed_and_busy_launches.given_up(self.launches, self.resumed)

    def problems(self) -> dict[str, str]:
        """Return the problems of cells that are not launched any more, by the cell in words."""
        lost = self.given_up()
        return {matrix.title(cell, self.study): lost[cell.key] for cell in self.cells if cell.key in lost}

    def _launched(self) -> set[tuple[str, bool, int]]:
        """Return contestants and rounds of the launches so far, repeated or not."""
        return {(launch.key, launch.again, launch.round) for launch in self.launches}

    def _started_rounds(self) -> list[list[Contestant]]:
        """Return the rounds up to that of the next launch."""
        self.next()
        return self._rounds

    def _certain_rounds(self) -> list[list[Contestant]]:
        """Return the rounds up to that of the next launch, and the later ones that do not depend on measurements."""
        started_rounds = self._started_rounds()
        to_come = range(len(started_rounds), self.study.repetitions.at_least)
        return started_rounds + [self._in_order(self.contestants, number) for number in to_come]

    def _in_order(self, some: list[Contestant], number: int) -> list[Contestant]:
        """Return contestants in the order of a round."""
        return some[:: -1 if number % 2 else 1]

    def _contestants_in(self, number: int) -> list[Contestant]:
        """Return the contestants of a round, in order of launch; an empty list after the last round."""
        while len(self._rounds) <= number:
            following = len(self._rounds)
            needed = stopping_rule.needed(
                self.study, self.contestants, self.cells, self.launches, following, self.given_up()
            )
            self._rounds.append(self._in_order(needed, following))
        lost = self.given_up()
        return [c for c in self._rounds[number] if c.key[0] not in lost or self._of(c, number)]

    def _of(self, contestant: Contestant, number: int) -> list[Launch]:
        return [x for x in self.launches if (x.key, x.again) == contestant.key and x.round == number]

    def _again(self, contestant: Contestant, number: int) -> bool:
        """Tell whether a launch failed or ran on a busy machine and has to be repeated."""
        return failed_and_busy_launches.is_repeated(
            self.study, self._of(contestant, number), self.launches, self.resumed
        )


def deploys(order: Iterable[Planned], nodes: int) -> list[int | None]:
    """Return to how many nodes the cluster is deployed before each launch; None where it stays as it is.

    Args:
        order: Launches.
        nodes: Nodes of the cluster before the first of them.
    """
    sizes: list[int | None] = []
    for needed in (planned.contestant.cell.nodes for planned in order):
        sizes.append(None if needed in (None, nodes) else needed)
        nodes = needed or nodes
    return sizes
