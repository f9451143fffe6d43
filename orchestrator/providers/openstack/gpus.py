"""GPUs of a flavor, as its extra specs tell."""

import re
from collections.abc import Mapping

# Words in the alias of a passed-through device that say it is a GPU: names of sites' own choosing.
_GPU = re.compile(
    r"gpu|cuda|nvidia|tesla|quadro|geforce|rtx|gtx|\b(gh|gb|dgx|[abhklmptv])\d{1,4}[a-z]*\b", re.IGNORECASE
)
_RESOURCE = re.compile(r"resources\d*:[VP]GPU")


def gpus(properties: Mapping[str, str]) -> int:
    """How many GPUs a server of the flavor has.

    ``pci_passthrough:alias`` "a100:2" are two where the alias reads like a GPU's (a network card's does not);
    ``resources:VGPU`` and ``resources:PGPU`` count as they stand. What a site names otherwise, ``openstack.gpus`` says.
    """
    passed = [alias.rpartition(":") for alias in properties.get("pci_passthrough:alias", "").split(",")]
    found = sum(_number(count) for name, _, count in passed if _GPU.search(name.replace("_", "-")))
    return found + sum(_number(count) for key, count in properties.items() if _RESOURCE.fullmatch(key))


def model(properties: Mapping[str, str]) -> str | None:
    """What the flavor calls its GPUs, where it does."""
    names = [alias.rpartition(":")[0] for alias in properties.get("pci_passthrough:alias", "").split(",")]
    return next((name for name in names if _GPU.search(name.replace("_", "-"))), None)


def _number(text: str) -> int:
    return int(text) if text.strip().isdigit() else 0
