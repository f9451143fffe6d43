"""Quotas of the project and of its region: the limit and the use of each resource."""

from dataclasses import dataclass

from orchestrator.providers.gcp.api.client import Google


@dataclass(frozen=True)
class Quota:
    """Limit and use of a resource. ``where`` is the region, or the whole project, in which the quota holds."""

    limit: float
    used: float
    where: str

    @property
    def free(self) -> float:
        """Return how much is not in use."""
        return self.limit - self.used


def quotas(google: Google, project: str, region: str) -> dict[str, Quota]:
    """Return quotas by Google's names: the project's, replaced by the region's if both have one.

    Args:
        google: Client with the user's credentials.
        project: Name of the project.
        region: Name of the region.

    Returns:
        The quotas by name, such as CPUS.
    """
    of_project = google.find(f"projects/{project}") or {}
    of_region = google.find(f"projects/{project}/regions/{region}") or {}
    places = ((f"project {project}", of_project), (region, of_region))
    return {
        q["metric"]: Quota(q["limit"], q["usage"], where) for where, answer in places for q in answer.get("quotas", [])
    }
