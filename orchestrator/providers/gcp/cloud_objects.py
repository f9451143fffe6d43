"""View of a project during one command: each request is made once, and names are resolved to Google's objects."""

from contextlib import suppress
from functools import cached_property
from typing import Any

from orchestrator.cluster import node_names
from orchestrator.config import Config, nearest
from orchestrator.errors import PreflightError
from orchestrator.providers.gcp.api import Document, Google, path_of
from orchestrator.providers.gcp.api.cluster_resources import Holding, owned
from orchestrator.state import Record

LISTED = 12
WITH_ADDED_GPUS = "n1"  # the only machine family that takes added GPUs; others have GPUs built in, or none


class Site:
    """Requirements of ``config`` on Google's cloud. ``record`` is the existing deployment, if there is one."""

    def __init__(self, config: Config, record: Record | None = None) -> None:
        """Connect to Google. Raise PreflightError if there are no credentials, or no project is named."""
        self.config, self.settings, self.record = config, config.gcp, record
        self.google = Google()
        self.before: dict[str, Any] = record.variables.get("gcp", {}) if record else {}
        project = self.settings.project or self.before.get("project") or self.google.project
        if not project:
            raise PreflightError("gcp.project: not set, and the credentials belong to no project", "set gcp.project")
        self.project = str(project)
        self._machines: dict[str, Document] = {}

    @cached_property
    def owned(self) -> list[Holding]:
        """Return resources of clusters of this name, from any state directory."""
        return owned(self.google, self.project, self.config.name)

    def can_be_listed(self) -> bool:
        """Tell whether this user may list resources: without that, few checks are possible."""
        try:
            return self.owned is not None
        except PreflightError:
            return False

    @property
    def deployment_resources(self) -> list[Holding]:
        """Return resources of this deployment."""
        return [holding for holding in self.owned if self.record and holding.id == self.record.id]

    @property
    def names(self) -> list[str]:
        """Return the names of all nodes, head first."""
        return node_names(self.config.name, self.config.nodes)

    @property
    def instances(self) -> dict[str, Holding]:
        """Return this deployment's instances in the configured zone, by name."""
        prefix = f"projects/{self.project}/zones/{self.settings.zone}/instances/"
        return {h.name: h for h in self.deployment_resources if h.kind == "instance" and h.key.startswith(prefix)}

    @cached_property
    def zone(self) -> Document:
        """Return the zone. Raise PreflightError if it does not exist."""
        document = self.google.find(f"projects/{self.project}/zones/{self.settings.zone}")
        if document is None:
            zones = [zone["name"] for zone in self.google.items(f"projects/{self.project}/zones")]
            raise PreflightError(
                f"gcp.zone: there is no zone {self.settings.zone!r}{nearest(self.settings.zone or '', zones)}",
                listed([zone for zone in zones if zone[:4] == (self.settings.zone or "")[:4]] or zones),
            )
        return document

    @property
    def region(self) -> str:
        """Return the region of the zone."""
        return str(self.zone["region"]).rpartition("/")[2]

    def in_zone(self, collection: str, name: str) -> Document | None:
        """Return an object of the zone, or None if it does not exist."""
        return self.google.find(f"projects/{self.project}/zones/{self.settings.zone}/{collection}/{name}")

    def type_of(self, role: str) -> str:
        """Return the name of the machine type of the "head" or of a "worker"."""
        return (self.settings.head_machine_type if role == "head" else None) or self.settings.machine_type

    def machine(self, role: str) -> Document:
        """Return the machine type. Raise PreflightError if the zone does not have it."""
        name = self.type_of(role)
        machine = self._machines.get(name) or self.in_zone("machineTypes", name)
        if machine is None:
            key = "gcp.head_machine_type" if role == "head" and self.settings.head_machine_type else "gcp.machine_type"
            raise PreflightError(
                f"{key}: zone {self.settings.zone} has no machine type {name!r}",
                f"`gcloud compute machine-types list --zones {self.settings.zone}` lists those that it has",
            )
        return self._machines.setdefault(name, machine)

    def shape(self, role: str) -> dict[str, Any]:
        """Return machine type, cores and GPUs of a node, as a variable of Terraform."""
        machine, accelerator, gpus = self.machine(role), None, 0
        for built_in in machine.get("accelerators", []):
            accelerator, gpus = built_in["guestAcceleratorType"], int(built_in["guestAcceleratorCount"])
        if accelerator is None and self.settings.accelerator and family(machine["name"]) == WITH_ADDED_GPUS:
            accelerator, gpus = self.settings.accelerator, self.settings.accelerators
        return {
            "machine_type": machine["name"],
            "cpus": int(machine["guestCpus"]),
            "gpus": gpus,
            "accelerator": accelerator,
        }

    @cached_property
    def existing_machine_types(self) -> dict[str, Document]:
        """Return the existing machine types by role."""
        by_role = {}
        for role in ("head", "worker"):
            with suppress(PreflightError):
                by_role[role] = self.machine(role)
        return by_role

    @property
    def pinned(self) -> str | None:
        """Return the image that the nodes were made of, if its configured name is the same."""
        image = self.record.config.get("gcp", {}).get("image") if self.record else None
        return self.before.get("image") if image == self.settings.image else None

    @cached_property
    def image(self) -> Document | None:
        """Return the pinned image, else the newest of the family; None if there are nodes and their image is gone."""
        pinned = self.google.find(path_of(self.pinned)) if self.pinned else None
        if pinned or (self.pinned and self.instances):
            return pinned
        project, _, name = self.settings.image.rpartition("/")
        images = f"projects/{project or self.project}/global/images"
        document = self.google.find(f"{images}/family/{name}") or self.google.find(f"{images}/{name}")
        if document is None:
            raise PreflightError(
                f"gcp.image: project {project or self.project!r} has neither a family nor an image {name!r}",
                "`gcloud compute images list` lists them; write PROJECT/FAMILY",
            )
        return document


def family(machine_type: str) -> str:
    """Return the machine family: n1 of n1-standard-8. Custom machine types without a family belong to N1."""
    return machine_type.partition("-")[0].replace("custom", "n1")


def listed(names: list[str]) -> str:
    """Return the existing names as a hint, at most LISTED of them."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"there are {', '.join(sorted(names)[:LISTED])}{more}" if names else "there are none at all"
