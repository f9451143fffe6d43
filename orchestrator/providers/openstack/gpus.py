"""GPUs of a flavor, read from its extra specs."""

import re
from collections.abc import Mapping

# Words that identify a GPU in the alias of a passed-through device. Each site chooses its own aliases.
_GPU = re.compile(
    r"gpu|cuda|nvidia|tesla|quadro|geforce|rtx|gtx|\b(gh|gb|dgx|[abhklmptv])\d{1,4}[a-z]*\b", re.IGNORECASE
)
_FLAVOR = re.compile(r"gpu|nvidia|tesla|\b(rtx|[ahv]100|h200|a30|a40|l40s?)\b", re.IGNORECASE)
_RESOURCE = re.compile(r"resources\d*:[VP]GPU")
_VIRTUAL, _WHOLE = re.compile(r"resources\d*:VGPU"), re.compile(r"resources\d*:PGPU")
_SUFFIX = re.compile(r"-(?P<number>\d+)[abcq]$", re.IGNORECASE)  # of NVIDIA's types of vGPUs, as in A100-10C


def named_like_gpus(flavor: str) -> bool:
    """Tell whether the name of a flavor reads like one with GPUs."""
    return bool(_FLAVOR.search(flavor.replace("_", "-")))


def gpus(properties: Mapping[str, str]) -> int:
    """Return the number of GPUs of a server with this flavor.

    ``pci_passthrough:alias`` "a100:2" counts as two if the alias reads like a GPU's (a network card's does not);
    ``resources:VGPU`` and ``resources:PGPU`` are counts. For all other names, the user sets ``openstack.gpus``.
    """
    passed = [alias.rpartition(":") for alias in properties.get("pci_passthrough:alias", "").split(",")]
    whole = sum(_number(count) for name, _, count in passed if _GPU.search(name.replace("_", "-")))
    return whole + sum(_number(count) for key, count in properties.items() if _RESOURCE.fullmatch(key))


def model(properties: Mapping[str, str], flavor: str, cpus: int) -> str:
    """Return the model of a flavor's GPUs: the alias of a passed-through device, or the flavor's name.

    Args:
        properties: The flavor's extra specs.
        flavor: The flavor's name.
        cpus: The flavor's cores.

    Returns:
        The name, with the suffix "-vgpu" if the GPUs are virtual: these need NVIDIA's licensed guest driver.
    """
    names = [alias.rpartition(":")[0] for alias in properties.get("pci_passthrough:alias", "").split(",")]
    name = next((name for name in names if _GPU.search(name.replace("_", "-"))), None)
    if any(_VIRTUAL.fullmatch(key) for key in properties):
        return f"{name or flavor}-vgpu"
    whole = any(_WHOLE.fullmatch(key) for key in properties)
    return name or _without_cores(flavor, cpus, whole)


def _without_cores(flavor: str, cpus: int, whole: bool) -> str:
    """Remove a suffix that reads like a type of vGPU from a flavor's name, if it is the number of cores."""
    suffix = _SUFFIX.search(flavor)
    return flavor[: suffix.start()] if suffix and (whole or int(suffix["number"]) == cpus) else flavor


def _number(text: str) -> int:
    return int(text) if text.strip().isdigit() else 0
