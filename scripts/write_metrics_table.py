"""Write docs/metrics.md from the code's tables and the recording rules: ``python -m scripts.write_metrics_table``."""

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

<!-- Made by `python -m scripts.write_metrics_table` from `orchestrator/trainer/telemetry/metrics.py`,
`orchestrator/trainer/telemetry/nvml_fields.py` and `infra/prometheus/rules/recording.yml`; a test compares them. -->

`orchestrator metrics RUN` summarizes these metrics for a run, and `--csv DIR` writes all values: see
[Monitor nodes and runs](guide/monitoring.md).

Every node has these exporters on its private address: node_exporter on port 9100, this project's exporter (job
`orchestrator`) on 9401 and, on nodes with GPUs, dcgm-exporter on 9400. Prometheus adds `node`, `cluster` and `role` to
every series. The series of a rank end when the rank ends, except loss and top-1: the last values of a rank that was not
killed stay for 15 s, so that Prometheus reads them. It may miss what else changed in a rank's last 5 s; `results.json`
has it.

## Training
"""
SPLIT = """
## How a step is split

    |-- input --|------------- compute -------------|-- communication --|
    ask for a batch                       this rank's gradients     mean of all ranks     (then the optimizer: compute)

- **input**: the time that the step loop waits for the next batch.
- **communication**: the time from the moment at which this rank has all its gradients to the moment at which it has
  the mean of all ranks; and, between steps, the time in which the ranks agree whether to continue. It contains the
  wait for slower ranks: their own time (input and compute) shows which ranks are slow. With one rank it is 0.
- **compute**: the rest, so that the three add up to the step: forward and backward pass, optimizer, copies to the GPU,
  the loop itself.

The trainer averages each group of gradients as soon as it is computed, while others are still being computed.
Communication that is hidden in this way costs no time and counts as compute. `results.json` has its share of each
rank's exchange, in `hidden_communication` of each epoch (0 to 1): the time in which at least one group was on its way
while the rank still computed, divided by that time and the time that the rank then waited for the rest.

These moments are read from the monotonic clock of the host, by a small operation within the compiled step
(`docker/tensorflow_operations/clock.cc`), or by a Python function on GPUs and in images without that operation.
(`tf.timestamp()` does not work here, because the trainer's operations are deterministic.)

On a GPU TensorFlow continues as soon as a kernel is started. Each reading of the clock therefore waits for a number
that is copied to the host after its gradients: a stream works in order, so the gradients are computed by then. The step
ends on the host after these readings in any case, so they do not make it slower. With one rank, the clock is read when
parts of the gradients are ready: `predict` uses these times.

## The node
"""
GPUS = """
## GPUs

The exporter is dcgm-exporter 4.5.3-4.8.2 with the fields below (`ansible/roles/dcgm_exporter/files/dcgm.csv`), not with
its defaults. For vGPUs, which DCGM does not support, and with `hosts.trainer: installed`, this project's exporter with
`--nvml` takes its place, with the same names, help, units and labels (`gpu`, `UUID`, `pci_bus_id`, `device`,
`modelName`, `DCGM_FI_DRIVER_VERSION`). A metric that a GPU or its guest does not support is missing.

- Neither exporter has `DCGM_FI_PROF_*` and `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL`, which NVML cannot measure.
- This project's exporter gives counters no type, because the library would add `_total` to their names.
"""
RECORDED = """
## Recording rules

Prometheus computes these series for the dashboards and alerts.
"""


def page() -> str:
    """Return the whole text of docs/metrics.md."""
    training = _table(["name", "type", "unit", "meaning", "how it is measured"], map(_row, metrics.TRAINING))
    labels = f"\nAll have the labels {_names(metrics.RUN)}, some also those in brackets.\nBuckets: {_buckets()}.\n"
    node = _table(["name", "type", "meaning"], [[_name(metrics.INTERFACE), "gauge", metrics.INTERFACE.measured]])
    node += "\nAll other metrics of a node come from node_exporter.\n"
    gpus = _table(["name", "type", "help"], map(_gpu, nvml_fields.FIELDS))
    return "".join([HEAD, labels, "\n", training, SPLIT, "\n", node, GPUS, "\n", gpus, _rules(), _costs()])


def _row(metric: Metric) -> list[str]:
    return [_name(metric), metric.kind, metric.unit, metric.help, metric.measured]


def _name(metric: Metric) -> str:
    own = [label for label in metric.labels if label not in metrics.RUN]
    return f"`{metric.name}`" + (f" ({_names(own)})" if own else "")


def _gpu(field: nvml_fields.Field) -> list[str]:
    return [f"`{field.name}`", field.kind, field.help]


def _buckets() -> str:
    return f"steps up to {_bounds(metrics.STEP)} s, checkpoints up to {_bounds(metrics.CHECKPOINT)} s"


def _bounds(buckets: "tuple[float, ...]") -> str:
    return ", ".join(f"{bound:g}" for bound in buckets)


def _rules() -> str:
    if not RULES.exists():
        return ""
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "record" in rule]
    # A list: the code of a table needs `\|` for a bar on GitHub, and mkdocs shows this backslash.
    return RECORDED + "\n" + "".join(f"- `{rule['record']}`: `{' '.join(rule['expr'].split())}`\n" for rule in rules)


def _costs() -> str:
    """Return docs/cost-of-monitoring.md, which is measured and therefore written by hand; "" if it does not exist."""
    costs = PAGE.with_name("cost-of-monitoring.md")
    return "\n" + costs.read_text() if costs.exists() else ""


def _names(names: "tuple[str, ...] | list[str]") -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: list[str], rows: "Any") -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page())
