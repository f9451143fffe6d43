"""Section of cluster.yaml for machines that exist already. Its names become arguments of ssh and words of a shell."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from orchestrator.config.section import MAX_NODES, Section
from orchestrator.schema.bounded_files import shown

HOST = re.compile(r"(?:(?P<user>[^@:\s]+)@)?(?P<address>[^@:\s]+)(?::(?P<port>\d{1,5}))?", re.ASCII)
USER, ADDRESS = r"[A-Za-z0-9_][\w.@+-]*", r"[A-Za-z0-9_][\w.-]*"


def _like(pattern: str, example: str) -> AfterValidator:
    """Return a validator for text that ``pattern`` matches as a whole, in ASCII."""

    def matched(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(f"{shown(text)}: write it like {example}")
        return text

    return AfterValidator(matched)


User = Annotated[str, _like(r"[A-Za-z0-9_][\w.@+\\-]*", "lab")]  # DOMAIN\lab is an account of Active Directory
Address = Annotated[str, _like(ADDRESS, "node1.example.org or 10.0.0.10")]
Jump = Annotated[str, _like(rf"(?:{USER}@)?{ADDRESS}(?::[0-9]{{1,5}})?", "lab@gate.example.org:22")]


class Host(Section):
    """Machine reachable by ssh, written as USER@ADDRESS:PORT or with keys."""

    address: Address = Field(description="name or IPv4 address for ssh")
    user: User | None = Field(None, description="account with sudo; default: from your ssh configuration")
    port: int = Field(22, ge=1, le=65535, description="port of its sshd")
    private_address: str | None = Field(
        None, description="IPv4 address by which the other hosts reach it; default: the address"
    )

    @model_validator(mode="before")
    @classmethod
    def _written_as_one_word(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        match = HOST.fullmatch(value)
        if not match:
            raise ValueError("not of the form USER@ADDRESS:PORT")
        return {key: part for key, part in match.groupdict().items() if part is not None}


class Hosts(Section):
    """Machines that exist already; the first is the head."""

    addresses: list[Host] = Field(
        [], max_length=MAX_NODES, description="USER@ADDRESS:PORT of each; the first is the head"
    )
    identity: Path | None = Field(
        None, description="private key for the first login; default: from your ssh configuration"
    )
    jump: Jump | None = Field(
        None, description="USER@HOST:PORT of a machine through which the hosts are reached; default: none"
    )
    storage: Literal["nfs", "mounted"] = Field(
        "nfs",
        description="nfs: the head serves /shared to the others; mounted: every host has the same /shared already",
    )
    trainer: Literal["container", "installed"] = Field(
        "container",
        description="container: deploy installs Docker and the trainer's image; installed: the hosts have the trainer",
    )
