"""Write docs/metrics.md from the tables in the code and the recording rules: ``python -m scripts.metrics_table``."""

from pathlib import Path
from typing import Any

import yaml

from orchestrator.trainer.telemetry import metrics, nvml_fields
from orchestrator.trainer.telemetry.metrics import Metric

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "metrics.md"
RULES = ROOT / "infra" / "prometheus" / "rules" / "recording.yml"

HEAD = """\
# Metrics

Made by `python -m scripts.metrics_table` from `orchestrator/trainer/telemetry/metrics.py`,
`orchestrator/trainer/telemetry/nvml_fields.py` and
`infra/prometheus/rules/recording.yml`; a test keeps it equal to them.

Every node serves on its private address: node_exporter on port 9100, ours (job `orchestrator`) on 9401, and, where
there are GPUs, dcgm-exporter on 9400. Prometheus adds `node`, `cluster` and `role` to every series. All series of a
run go with its ranks: a rank that ends, however it ends, is served no more. What changed in a rank's last second may
not be scraped; `results.json` has it.

## Training
"""
SPLIT = """
## How a step is split

    |-- input --|------------- compute -------------|-- communication --|
    ask for a batch                       this rank's gradients     everybody's     (then the optimizer: compute)

- **input**: the time that the step loop is blocked on the iterator of batches.
- **communication**: within the compiled step, from the moment at which this rank has all its gradients to the moment
  at which it has the mean of all ranks', both on the host's monotonic clock, which a small Python function within the
  step looks at behind control dependencies (`tf.timestamp()` refuses where operations are deterministic, as ours
  are); and, between steps, the time that ranks take to tell each other whether to go on. Horovod reduces each
  gradient as soon as it is there, while others are being computed: communication that is hidden like this costs no
  time of its own and counts as compute. What counts holds the wait for slower ranks: their own time (input and
  compute) shows who they are. On one rank it is 0.
- **compute**: all the rest, so that the three add up to the step: forward and backward pass, optimizer, copies to the
  GPU, the loop itself.

On a GPU TensorFlow goes on once a kernel is begun. The first look at the clock therefore waits for a number that is
copied to the host after all gradients were begun, and so after they are computed: the stream works in order. The
second needs no such thing, for Horovod's operations end on the host when the network has done its part. So the step
ends on the host after both in any case, and reading what they saw in the same step makes the host wait for nothing
new. On one rank nobody looks, and steps go on without any such wait; where a GPU falls behind the host, single steps
are then short and one is long, and only their mean says something.

## The node
"""
GPUS = """
## GPUs

By dcgm-exporter 4.5.3-4.8.2 with its default counters; or, where DCGM does not work (vGPU), by our exporter with
`--nvml`: the same names, help, units and labels (`gpu`, `UUID`, `pci_bus_id`, `device`, `modelName`,
`DCGM_FI_DRIVER_VERSION`) for what NVML can tell, which is the list below. What a GPU or its guest does not support is
left out. Not by NVML, of the defaults: `DCGM_FI_PROF_*` and `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL`. Marked with a star:
not among the defaults, which leave it out. Ours has counters without a type, for the library would add `_total` to
their names.
"""
DEFAULT_OFF = {
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    "DCGM_FI_DEV_POWER_VIOLATION",
    "DCGM_FI_DEV_THERMAL_VIOLATION",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
}
RECORDED = """
## Recording rules

What panels ask often, evaluated by Prometheus.
"""


def page() -> str:
    """Return the whole text of docs/metrics.md."""
    training = _table(["name", "type", "unit", "meaning", "how it is measured"], map(_row, metrics.TRAINING))
    labels = f"\nLabels of all: {_names(metrics.RUN)}; of some, others in brackets.\nHistograms: {_buckets()}.\n"
    node = _table(["name", "type", "meaning"], [[_name(metrics.INTERFACE), "gauge", metrics.INTERFACE.measured]])
    node += "\nAll else about a node is node_exporter's.\n"
    gpus = _table(["name", "type", "help"], map(_gpu, nvml_fields.FIELDS))
    return "".join([HEAD, labels, "\n", training, SPLIT, "\n", node, GPUS, "\n", gpus, _rules(), _costs()])


def _row(metric: Metric) -> list[str]:
    return [_name(metric), metric.kind, metric.unit, metric.help, metric.measured]


def _name(metric: Metric) -> str:
    own = [label for label in metric.labels if label not in metrics.RUN]
    return f"`{metric.name}`" + (f" ({_names(own)})" if own else "")


def _gpu(field: nvml_fields.Field) -> list[str]:
    return [f"`{field.name}`" + (" *" if field.name in DEFAULT_OFF else ""), field.kind, field.help]


def _buckets() -> str:
    return f"steps up to {_bounds(metrics.STEP)} s, checkpoints up to {_bounds(metrics.CHECKPOINT)} s"


def _bounds(buckets: "tuple[float, ...]") -> str:
    return ", ".join(f"{bound:g}" for bound in buckets)


def _rules() -> str:
    if not RULES.exists():
        return ""
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "record" in rule]
    rows = [[f"`{rule['record']}`", f"`{' '.join(rule['expr'].split())}`"] for rule in rules]
    return RECORDED + "\n" + _table(["name", "expression"], rows)


def _costs() -> str:
    """Return docs/metrics-costs.md, which is measured and therefore written by hand; "" if it does not exist."""
    costs = PAGE.with_name("metrics-costs.md")
    return "\n" + costs.read_text() if costs.exists() else ""


def _names(names: "tuple[str, ...] | list[str]") -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: list[str], rows: "Any") -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page())
