"""Receipt of a teardown: the resources that it found, which of them are gone, and its text."""

from dataclasses import dataclass

from orchestrator.providers import Resource


@dataclass(frozen=True)
class Receipt:
    """Resources that a teardown found, and those that are left."""

    cluster: str
    made: list[Resource]
    left: list[Resource]

    @property
    def gone(self) -> list[Resource]:
        """Return the resources that were removed."""
        remaining = {resource.key for resource in self.left}
        return [resource for resource in self.made if resource.key not in remaining]

    def __str__(self) -> str:
        """Return a line for each resource, and their numbers."""
        gone = self.gone
        lines = [f"{resource}: {'gone' if resource in gone else 'LEFT'}" for resource in self.made]
        numbers = f"{len(self.made)} made, {len(gone)} gone, {len(self.left)} left"
        return "\n".join([*lines, f"cluster {self.cluster}: {numbers}"])
