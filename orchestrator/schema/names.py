"""Types of names that become parts of paths. Nodes send them too, and an attacker may control a node."""

from typing import Annotated

from pydantic import StringConstraints

# Name of a run or a checkpoint: one part of a path, never hidden, never read as a command line option.
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$")]
# An IP address or a host name. Templates are excluded: Ansible evaluates them in an inventory, on this machine.
Address = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9:][A-Za-z0-9.:_%-]{0,254}$")]
# Metric name of Prometheus, without a leading colon (https://prometheus.io/docs/concepts/data_model/).
MetricName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_:]{0,199}$")]
