"""Messages of a study that runs: which launch starts, what it measured, what is left."""

from datetime import timedelta
from statistics import fmean

from orchestrator import progress
from orchestrator.schema.studies import Launch
from orchestrator.studies import matrix
from orchestrator.studies.launch_schedule import Planned, Schedule
from orchestrator.studies.report.number_text import maybe


def announce(planned: Planned, schedule: Schedule) -> None:
    """Print the launch that starts, and what is left."""
    again = " (again, for the A/A pair)" if planned.contestant.again else ""
    title = matrix.title(planned.contestant.cell, schedule.study)
    progress.note(f"round {planned.round + 1}: {title}{again}; {remaining(schedule)}")


def tell(launch: Launch, schedule: Schedule) -> None:
    """Print what a launch measured, or why it measured nothing."""
    busy = f"; others used {launch.busy:.0%} of the CPU" if launch.busy > schedule.study.busy_above else ""
    if launch.problem:
        progress.note(f"  no measurement: {launch.problem}")
        if launch.key in schedule.given_up():
            progress.note(f"  given up: {matrix.title(launch.cell, schedule.study)}")
    else:
        progress.note(f"  {maybe(launch.images_per_second)} images/s, {launch.seconds:.1f} s{busy}")


def remaining(schedule: Schedule) -> str:
    """Return how many launches are left and which are repeated, and about how long they take."""
    count, repeats = len(schedule.remaining()), _repeated(schedule)
    limits = schedule.study.repetitions
    least = "" if limits.at_least == limits.at_most or schedule.next() is None else "at least "
    words = [f"{least}{count} launch{'es' * (count != 1)} left"] if count or not repeats else []
    durations = [launch.seconds for launch in schedule.launches if not launch.problem]
    about = [f"about {timedelta(seconds=round(schedule.expected() * fmean(durations)))}"] if durations else []
    return ", ".join(words + repeats + about)


def _repeated(schedule: Schedule) -> list[str]:
    """Return what is repeated, and why."""
    repeats = schedule.repeats()
    failed = sum(launch.problem is not None for launch in repeats)
    reasons = {"other programs used the machine": len(repeats) - failed, "they failed": failed}
    return [f"repeating {n} of {len(schedule.launches)} launches: {why}" for why, n in reasons.items() if n]
