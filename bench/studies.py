"""Measure the time that studies add to their launches, and the coverage of their intervals: ``make bench-studies``.

Every study is an A/A pair: the same launches under two names, on one local node. A 95 % interval of their ratio should
contain 1 in 19 of 20 studies. Writes build/studies.md.
"""

import argparse
import json
import statistics
import sys
from typing import Any

from bench.harness import MNIST, Bench, Row, bench, machine, write
from orchestrator.studies.confidence_intervals import FEWEST

STUDIES = 20
STUDY = """
name: same-{number}
models: lenet
datasets: mnist
ranks: 1
data: {{mnist: {mnist}}}
until: {{steps: {steps}}}
options: {{test_samples: 64}}
repetitions: {repetitions}
"""


def study(b: Bench, number: int, steps: int, repetitions: int) -> dict[str, Any]:
    """Run an A/A study, and return its report."""
    name = b.state / f"same-{number}"
    file = name.with_suffix(".yaml")
    file.write_text(STUDY.format(number=number, mnist=MNIST, steps=steps, repetitions=repetitions))
    report: dict[str, Any] = json.loads(b.run("study run", str(file), "--directory", str(name), "--json"))
    pair = report["cells"][-1]
    print(f"{pair['ratio']:.3f} ({pair['low']:.3f} {pair['high']:.3f})", file=sys.stderr)
    return report


def row_of_pairs(reports: list[dict[str, Any]]) -> Row:
    """Count the intervals that contain 1."""
    pairs = [report["cells"][-1] for report in reports]
    correct = sum(pair["low"] <= 1 <= pair["high"] for pair in pairs)
    ratios = sorted(pair["ratio"] for pair in pairs)
    extremes = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
    return Row(
        f"A/A studies whose interval contains 1, of {len(pairs)}", "≥ 18 of 20", str(correct), extremes, "1, the truth"
    )


def row_of_overhead(reports: list[dict[str, Any]]) -> Row:
    """Compare the time that studies need with the sum of their launches."""
    launches = [launch["seconds"] for report in reports for launch in report["sitting"]["launches"]]
    seconds = [report["sitting"]["seconds"] for report in reports]
    added = statistics.median(report["overhead"] for report in reports)
    reference = f"the launches, {statistics.median(launches):.1f} s each"
    return Row("time of a study", "< 1.03", f"{statistics.median(seconds):.0f} s", f"{1 + added:.3f}", reference)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.studies", description=__doc__)
    parser.add_argument("--studies", type=int, default=STUDIES)
    parser.add_argument("--steps", type=int, default=200, help="of a launch")
    parser.add_argument(
        "--repetitions", type=int, default=FEWEST, help=f"launches of each of the two, at least {FEWEST}"
    )
    args = parser.parse_args()
    if args.repetitions < FEWEST:
        parser.error(f"--repetitions {args.repetitions}: fewer than {FEWEST} give no interval")
    with bench() as b:
        b.deploy(1)
        reports: list[dict[str, Any]] = []
        for number in range(args.studies):
            reports.append(study(b, number, args.steps, args.repetitions))
            write("studies", [row_of_pairs(reports), row_of_overhead(reports)], len(reports), machine())


if __name__ == "__main__":
    main()
