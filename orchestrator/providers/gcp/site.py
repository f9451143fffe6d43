"""A project as one request sees it: each question asked once, names turned into what they mean there."""

from contextlib import suppress
from functools import cached_property
from typing import Any

from orchestrator.config import Config, nearest
from orchestrator.errors import PreflightError
from orchestrator.google import Document, Google, path_of
from orchestrator.google.holdings import Holding, owned
from orchestrator.state import Record

LISTED = 12
WITH_ADDED_GPUS = "n1"  # the one machine family that GPUs are added to; others have theirs built in, or none


class Site:
    """What ``config`` asks of Google, where ``record`` is what this deployment was told before."""

    def __init__(self, config: Config, record: Record | None = None) -> None:
        """Raises PreflightError where there are no credentials, or no project is named."""
        self.config, self.wanted, self.record = config, config.gcp, record
        self.google = Google()
        self.before: dict[str, Any] = record.variables.get("gcp", {}) if record else {}
        project = self.wanted.project or self.before.get("project") or self.google.project
        if not project:
            raise PreflightError("gcp.project: none is named, and the credentials are of none", "set gcp.project")
        self.project = str(project)
        self._machines: dict[str, Document] = {}

    @cached_property
    def owned(self) -> list[Holding]:
        """What clusters of this name have there, whoever deployed them."""
        return owned(self.google, self.project, self.config.name)

    def can_be_listed(self) -> bool:
        """Whether this user may see what there is: if not, little can be told."""
        try:
            return self.owned is not None
        except PreflightError:
            return False

    @property
    def ours(self) -> list[Holding]:
        return [holding for holding in self.owned if self.record and holding.id == self.record.id]

    @property
    def names(self) -> list[str]:
        """Of all nodes, head first."""
        workers = [f"{self.config.name}-worker-{number}" for number in range(self.config.nodes - 1)]
        return [f"{self.config.name}-head", *workers]

    @property
    def instances(self) -> dict[str, Holding]:
        """Those of this deployment in the zone that is asked for, by name."""
        here = f"projects/{self.project}/zones/{self.wanted.zone}/instances/"
        return {h.name: h for h in self.ours if h.kind == "instance" and h.key.startswith(here)}

    @cached_property
    def zone(self) -> Document:
        """Raises PreflightError where there is no such zone."""
        found = self.google.find(f"projects/{self.project}/zones/{self.wanted.zone}")
        if found is None:
            zones = [zone["name"] for zone in self.google.items(f"projects/{self.project}/zones")]
            raise PreflightError(
                f"gcp.zone: there is no zone {self.wanted.zone!r}{nearest(self.wanted.zone or '', zones)}",
                listed([zone for zone in zones if zone[:4] == (self.wanted.zone or "")[:4]] or zones),
            )
        return found

    @property
    def region(self) -> str:
        return str(self.zone["region"]).rpartition("/")[2]

    def in_zone(self, collection: str, name: str) -> Document | None:
        return self.google.find(f"projects/{self.project}/zones/{self.wanted.zone}/{collection}/{name}")

    def type_of(self, role: str) -> str:
        """The machine type's name, of the "head" or of a "worker"."""
        return (self.wanted.head_machine_type if role == "head" else None) or self.wanted.machine_type

    def machine(self, role: str) -> Document:
        """The machine type. Raises PreflightError where the zone does not have it."""
        name = self.type_of(role)
        found = self._machines.get(name) or self.in_zone("machineTypes", name)
        if found is None:
            key = "gcp.head_machine_type" if role == "head" and self.wanted.head_machine_type else "gcp.machine_type"
            raise PreflightError(
                f"{key}: zone {self.wanted.zone} has no machine type {name!r}",
                f"`gcloud compute machine-types list --zones {self.wanted.zone}` names those that it has",
            )
        return self._machines.setdefault(name, found)

    def shape(self, role: str) -> dict[str, Any]:
        """Machine type, cores and GPUs of a node, as Terraform is told."""
        machine, accelerator, gpus = self.machine(role), None, 0
        for built_in in machine.get("accelerators", []):
            accelerator, gpus = built_in["guestAcceleratorType"], int(built_in["guestAcceleratorCount"])
        if accelerator is None and self.wanted.accelerator and family(machine["name"]) == WITH_ADDED_GPUS:
            accelerator, gpus = self.wanted.accelerator, self.wanted.accelerators
        return {
            "machine_type": machine["name"],
            "cpus": int(machine["guestCpus"]),
            "gpus": gpus,
            "accelerator": accelerator,
        }

    @cached_property
    def known(self) -> dict[str, Document]:
        """The machine type by role, where there is such a type."""
        found = {}
        for role in ("head", "worker"):
            with suppress(PreflightError):
                found[role] = self.machine(role)
        return found

    @property
    def pinned(self) -> str | None:
        """The image that the nodes were made of, where the configured name is still the same."""
        told = self.record.config.get("gcp", {}).get("image") if self.record else None
        return self.before.get("image") if told == self.wanted.image else None

    @cached_property
    def image(self) -> Document | None:
        """The pinned one, else the newest of the family. None: nodes stand, and what they were made of is gone."""
        pinned = self.google.find(path_of(self.pinned)) if self.pinned else None
        if pinned or (self.pinned and self.instances):
            return pinned
        project, _, name = self.wanted.image.rpartition("/")
        images = f"projects/{project or self.project}/global/images"
        found = self.google.find(f"{images}/family/{name}") or self.google.find(f"{images}/{name}")
        if found is None:
            raise PreflightError(
                f"gcp.image: project {project or self.project!r} has neither a family nor an image {name!r}",
                "`gcloud compute images list` names them; write PROJECT/FAMILY",
            )
        return found


def family(machine_type: str) -> str:
    """n1 of n1-standard-8; custom machine types without a family are of N1."""
    return machine_type.partition("-")[0].replace("custom", "n1")


def listed(names: list[str]) -> str:
    """What there is instead, as far as a line carries it."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"there are {', '.join(sorted(names)[:LISTED])}{more}" if names else "there are none at all"
