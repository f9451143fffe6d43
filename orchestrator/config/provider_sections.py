"""Sections of cluster.yaml for providers that make their nodes."""

from ipaddress import IPv4Network, ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from orchestrator.config.section import MAX_NODES, Section

# bookworm-20260918-slim, with the digest listed by docker-library/repo-info (repos/debian/remote).
DEBIAN_12 = "debian:12-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251"
LEAST_CPUS, LEAST_MEMORY = 0.01, 0.3  # cores, GiB
SPECIAL = {  # https://www.iana.org/assignments/iana-ipv4-special-registry
    "0.0.0.0/8": "unspecified",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}


def roomy(subnet: IPv4Network) -> IPv4Network:
    """Return ``subnet``. Raise ValueError if it cannot hold the maximum number of nodes, or has special addresses."""
    special = next((kind for network, kind in SPECIAL.items() if subnet.overlaps(IPv4Network(network))), None)
    if special:
        raise ValueError(f"{subnet} contains {special} addresses, which no node can have: write it like 10.77.0.0/24")
    if subnet.num_addresses < MAX_NODES + 16:
        raise ValueError("needs at least a /25")
    return subnet


def address(text: str) -> str:
    """Return ``text``. Raise ValueError if it is no IP address."""
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError("is no IP address: write it like 9.9.9.9") from None


Subnet = Annotated[IPv4Network, AfterValidator(roomy)]
Address = Annotated[str, AfterValidator(address)]


class Local(Section):
    """Nodes that are containers on this machine."""

    cpus: float | None = Field(
        None,
        ge=LEAST_CPUS,
        description="limit of cores per node; default: an equal share of this machine's, no limit if that is below one",
    )
    memory: float | None = Field(
        None,
        ge=LEAST_MEMORY,
        description="GiB per node; default: an equal share of 90 % of this machine's, more for the head",
    )
    subnet: Subnet | None = Field(None, description="network of the nodes; default: the first free one")
    base_image: str = Field(DEBIAN_12, min_length=1, description="image that the trainer and node images are built on")


class OpenStack(Section):
    """Nodes that are servers of an OpenStack cloud. Credentials: clouds.yaml, or OS_* in the environment."""

    cloud: str | None = Field(None, description="entry of clouds.yaml; default: $OS_CLOUD, or OS_* in the environment")
    image: str | None = Field(None, description="name of the servers' image; if several have it, the newest is used")
    flavor: str | None = Field(None, description="flavor of the servers")
    head_flavor: str | None = Field(None, description="flavor of the head; default: the same as the other servers")
    gpus: int | None = Field(None, ge=0, le=16, description="GPUs per node; default: from the flavor's properties")
    network: str | None = Field(None, description="name of an existing network; default: a new network with a router")
    subnet: Subnet = Field(IPv4Network("10.77.0.0/24"), description="addresses of the new network")
    dns: list[Address] = Field([], description="addresses of the new network's name servers; none: the cloud's")
    external_network: str | None = Field(
        None, description="network that floating IPs come from; default: the only external one"
    )
    floating_ip: bool = Field(True, description="a floating IP for the head; the others are reached through it")
    availability_zone: str | None = Field(None, description="zone of the servers; default: the cloud's choice")
    server_group: Literal["anti-affinity", "soft-anti-affinity"] | None = Field(
        None, description="anti-affinity or soft-anti-affinity: one hypervisor per server; default: the cloud's choice"
    )
    volume_size: int | None = Field(None, ge=10, description="GiB of a volume to boot from; default: the flavor's disk")
    volume_type: str | None = Field(None, description="type of these volumes; default: the cloud's choice")
    config_drive: bool = Field(
        False, description="give servers their settings on a disk, for clouds without a metadata service"
    )


class Gcp(Section):
    """Nodes that are instances of Google Compute Engine. Credentials: application-default credentials."""

    project: str | None = Field(None, description="project that pays; default: that of the credentials")
    zone: str | None = Field(None, description="zone of the instances, such as europe-west4-a")
    image: str = Field("debian-cloud/debian-12", description="image family as PROJECT/FAMILY, or PROJECT/IMAGE")
    machine_type: str = Field("n1-standard-8", description="machine type of the instances")
    head_machine_type: str | None = Field(
        None, description="machine type of the head; default: the same as the other instances"
    )
    accelerator: str | None = Field(None, description="GPU type, such as nvidia-tesla-t4; default: the machine type's")
    accelerators: int = Field(1, ge=1, le=16, description="GPUs of that type per node")
    disk_size: int = Field(50, ge=20, description="GiB of each boot disk")
    disk_type: str = Field("pd-balanced", description="type of the boot disks")
    spot: bool = Field(False, description="cheaper instances that Google may take back at any time")
    compact: bool = Field(False, description="place instances close to each other, if the machine type supports it")
    subnet: Subnet = Field(IPv4Network("10.77.0.0/24"), description="addresses of the new network")
    iap: bool = Field(False, description="allow ssh only from Google's Identity-Aware Proxy")
