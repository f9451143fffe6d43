"""Names that become parts of paths. They come from nodes too, which somebody else may control."""

from typing import Annotated

from pydantic import StringConstraints

# Of a run, and of a checkpoint: one part of a path, never hidden, and no option of a program.
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$")]
# An IP address or the name of a host. Ansible evaluates templates in an inventory, on this machine.
Address = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9:][A-Za-z0-9.:_%-]{0,254}$")]
# As Prometheus has them, but for a first colon (https://prometheus.io/docs/concepts/data_model/).
MetricName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_:]{0,199}$")]
