"""Checks before a deploy on Google's cloud. Each one raises PreflightError."""

from functools import partial

from orchestrator.errors import PreflightError, gather
from orchestrator.providers import provisioning
from orchestrator.providers.gcp import machine_type_checks
from orchestrator.providers.gcp.api import Document
from orchestrator.providers.gcp.cloud_objects import Site

NEEDED = (
    "compute.disks.create",
    "compute.firewalls.create",
    "compute.instances.create",
    "compute.networks.create",
    "compute.routers.create",
    "compute.subnetworks.create",
    "iam.serviceAccounts.actAs",
    "iam.serviceAccounts.create",
)
ROLES = "roles/compute.admin, roles/iam.serviceAccountAdmin and roles/iam.serviceAccountUser"


def require(site: Site) -> None:
    """Raise one PreflightError with all findings."""
    _project(site)
    checks = (_same_location, _image, _in_zone) if site.can_be_listed() else ()
    gather(*(partial(check, site) for check in (_permissions, _no_unowned_resources, *checks)))


def _project(site: Site) -> None:
    project = site.google.find(f"projects/{site.project}")
    if project is None:
        raise PreflightError(
            f"gcp.project: there is no project {site.project!r}, or not for you",
            "`gcloud projects list` lists yours",
        )
    if site.project.isdigit():  # Terraform builds the addresses of service accounts from the id
        name = project["name"]
        raise PreflightError(f"gcp.project: {site.project} is the number of {name}", f"set gcp.project: {name}")


def _permissions(site: Site) -> None:
    """Check the user's permissions. If the API for this is off, only Terraform reports missing ones."""
    needed = [*NEEDED, *(permission for permission, applies in _at_times(site).items() if applies)]
    try:
        path = f"projects/{site.project}:testIamPermissions"
        answer = site.google.call("POST", path, "cloudresourcemanager", body={"permissions": needed})
    except PreflightError:
        return
    lacking = sorted(set(needed) - set((answer or {}).get("permissions", needed if answer is None else [])))
    if lacking:
        raise PreflightError(
            f"gcp.project: you lack permissions in {site.project}: {', '.join(lacking)}",
            f"ask its owner for {ROLES}",
        )


def _at_times(site: Site) -> dict[str, bool]:
    return {
        "compute.addresses.create": not site.settings.iap,
        "compute.resourcePolicies.create": bool(site.settings.compact),
    }


def _same_location(site: Site) -> None:
    # Terraform would replace the subnet, and Google removes none in use: the apply would fail at each deploy.
    places = {"project": site.project, "zone": site.settings.zone, "subnet": str(site.settings.subnet)}
    for key, value in places.items():
        provisioning.require_same_location(
            site.config, key, site.before.get(key) if site.deployment_resources else None, value
        )


def _no_unowned_resources(site: Site) -> None:
    unowned = [f"{holding.kind} {holding.name}" for holding in site.owned if holding not in site.deployment_resources]
    provisioning.require_free_name(site.config, f"project {site.project}", unowned)


def _no_same_names(site: Site) -> None:
    """Check for other instances of the same names: a name is an instance's address in the zone and must be unique."""
    instances = site.google.items(
        f"projects/{site.project}/zones/{site.zone['name']}/instances",
        {"filter": f'name eq "{site.config.name}-(head|worker-[0-9]+)"'},
    )
    owned_names = {holding.name for holding in site.owned}
    taken = [item["name"] for item in instances if item["name"] in site.names and item["name"] not in owned_names]
    if taken:
        raise PreflightError(
            f"zone {site.settings.zone} has instances of these names that are not this cluster's: {', '.join(taken)}",
            "choose another name with --cluster",
        )


def _image(site: Site) -> None:
    image, new_instances = site.image, [name for name in site.names if name not in site.instances]
    if image:  # the image of existing instances limits their machine types too, which a deploy may change
        gather(*([partial(_usable, site, image)] if new_instances else []), partial(_runs, site, image))
    elif new_instances:
        raise provisioning.image_gone(site.config, site.settings.image)


def _usable(site: Site, image: Document) -> None:
    if image.get("status", "READY") != "READY" or image.get("deprecated", {}).get("state") in ("OBSOLETE", "DELETED"):
        raise PreflightError(f"gcp.image: {image['name']} can no longer be used", "choose another image")
    if int(image.get("diskSizeGb", 0)) > site.settings.disk_size:
        raise PreflightError(
            f"gcp.disk_size: {site.settings.disk_size} GiB, image {image['name']} needs {image['diskSizeGb']}",
            f"ask for {image['diskSizeGb']} or more",
        )


def _runs(site: Site, image: Document) -> None:
    for machine in {machine["name"]: machine for machine in site.existing_machine_types.values()}.values():
        needs, has = image.get("architecture"), machine.get("architecture")
        if needs and has and needs != has:
            raise PreflightError(
                f"gcp.image: {image['name']} is for {needs}, machine type {machine['name']} is {has}",
                "choose another image, or another machine type",
            )


def _in_zone(site: Site) -> None:
    if site.zone.get("status", "UP") != "UP":
        raise PreflightError(f"gcp.zone: {site.settings.zone} is {site.zone['status']} now", "choose another zone")
    gather(partial(_no_same_names, site), partial(machine_type_checks.require, site))
