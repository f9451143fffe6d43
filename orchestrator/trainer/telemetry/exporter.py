"""Exporter for Prometheus of the metrics of this node's ranks, its training interface, and its GPUs by NVML.

``python -m orchestrator.trainer.telemetry.exporter --listen ADDRESS:PORT [--interface NAME | --interface-of ADDRESS]
[--nvml]``, as a service on every node. It starts before there is a rank, and no rank's file can break a scrape. It
imports neither TensorFlow nor pydantic: it runs all the time, in memory that training could use.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from orchestrator.trainer.telemetry import metrics, node_report, nvml, snapshots

TRAINING = {metric.family: metric for metric in metrics.TRAINING}


class Ranks(Collector):
    """Collector of the series of every rank that is alive on this node."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def collect(self) -> Iterator[Metric]:
        """Yield one family per metric, with the samples of all ranks: the format allows a name once."""
        merged: dict[str, Metric] = {}
        for content in snapshots.live(self.directory):
            for family in read(content):
                metric = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                metric.samples += family.samples
        yield from merged.values()


class Interface(Collector):
    """Collector of the name of the network interface that training uses: `name`, or the one that has `address`."""

    def __init__(self, name: str | None, address: str) -> None:
        self.name, self.address = name, address

    def collect(self) -> Iterator[Metric]:
        """Yield the interface's name; nothing while no interface has the address."""
        name = self.name or node_report.interface(self.address)
        if name is not None:
            family = GaugeMetricFamily(metrics.INTERFACE.name, metrics.INTERFACE.help, labels=metrics.INTERFACE.labels)
            family.add_metric([name], 1)
            yield family


def read(content: bytes) -> list[Metric]:
    """Return the families of a rank's snapshot that the table of metrics contains; none if it is malformed."""
    with contextlib.suppress(ValueError, KeyError, IndexError):
        families = list(text_string_to_metric_families(content.decode()))
        of_table = [f for f in families if f.name in TRAINING and TRAINING[f.name].kind == f.type]
        for family in of_table:
            family.samples = _plain_samples(family)
        return of_table
    return []


def _plain_samples(family: Metric) -> list[Sample]:
    """Return the samples with the table's labels, without what no rank writes: Prometheus may refuse the scrape."""
    labels = {*TRAINING[family.name].labels, "le"}
    return [Sample(s.name, s.labels, s.value) for s in family.samples if s.labels.keys() <= labels]


def main(arguments: list[str]) -> None:
    """Serve until killed; ends the program if the address cannot be bound."""
    parser = argparse.ArgumentParser(prog="exporter", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--listen", required=True, metavar="ADDRESS:PORT")
    interface = parser.add_mutually_exclusive_group()
    interface.add_argument("--interface", metavar="NAME", help="the network interface that training uses")
    interface.add_argument("--interface-of", metavar="ADDRESS", help="the private address of this node")
    parser.add_argument("--nvml", action="store_true", help="GPUs too, as dcgm-exporter names them")
    parser.add_argument("--snapshots", type=Path, default=snapshots.DIRECTORY, metavar="DIRECTORY")
    options = parser.parse_args(arguments)
    registry = CollectorRegistry()
    registry.register(Ranks(options.snapshots))
    if options.interface or options.interface_of:
        registry.register(Interface(options.interface, options.interface_of))
    if options.nvml:
        registry.register(nvml.Gpus())
    _serve(options.listen, registry)


def _serve(listen: str, registry: CollectorRegistry) -> None:
    address, _, port = listen.rpartition(":")
    if not address or not port.isdigit():
        sys.exit(f"--listen {listen}: is not ADDRESS:PORT, as in 10.0.0.10:9401")
    try:
        _, thread = start_http_server(int(port), address.strip("[]"), registry)
    except (OSError, OverflowError) as error:
        sys.exit(f"--listen {listen}: {error}: is the address this node's, and the port free?")
    thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])
