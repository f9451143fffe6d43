"""Choose driver and image for a GPU from drivers_to_install.yaml; refuse combinations that cannot work. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.config import Framework, yaml_documents
from orchestrator.config.gpu_section import Gpu
from orchestrator.errors import PreflightError

NOISE = re.compile(
    r"nvidia|tesla|quadro|geforce|grid|v?gpu|pcie?|sxm\d?|nvl|hgx|mega|vws|server|workstation|edition|generation|sff"
    r"|lovelace|blackwell|laptop|mobile|with|max|q|design|hbm\d+e?|\d+(g|gb|gib|[abcq])"
)
LICENSED = re.compile(r"-(vws|vgpu|\d+[abcq])$")  # GCP's virtual workstations; flavors with vGPUs; NVIDIA's vGPU types
RELEASES = {
    "debian 12": r"debian\W*12|bookworm",
    "debian 13": r"debian\W*13|trixie",
    "ubuntu 22.04": r"ubuntu\W*22\.?04|jammy",
    "ubuntu 24.04": r"ubuntu\W*24\.?04|noble",
}


@dataclass(frozen=True)
class Pairing:
    """Driver, packages and versions for the GPUs of a cluster.

    ``driver`` is one of none, image, distro, cuda-repository and vgpu; ``least_driver`` is the minimum version of it.
    ``packages`` are the packages to install, by guest distribution; those in ``first`` are installed in a step before.
    ``framework`` is the framework of the image with its version, as in "pytorch 2.15.0".
    """

    gpu: str = ""
    architecture: str = ""
    accelerator: str = "cpu"
    driver: str = "none"
    least_driver: str = ""
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    first: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cuda: str = ""
    framework: str = ""
    horovod: str = ""


def resolve(
    model: str | None, settings: Gpu, distribution: str | None = None, framework: Framework = "tensorflow"
) -> Pairing:
    """Choose driver, packages and versions for the GPUs of a cluster.

    Args:
        model: The cloud's name of the GPUs; None if there are none.
        settings: The section gpu of the configuration; its architecture replaces ``model``.
        distribution: The guests' distribution, one of those in the table; None if it is unknown until the guests run.
        framework: The framework of the nodes' image.

    Returns:
        The pairing; an empty one without GPUs and for ``driver: none``.

    Raises:
        PreflightError: The combination cannot work; it names the value and the remedy.
    """
    if model is None or settings.driver == "none":
        return Pairing()
    name = settings.architecture or model
    architecture, least = _architecture_and_driver(name, framework)
    guests = _guests(distribution)
    driver = _driver(model, settings, least, guests)
    if driver in ("distro", "cuda-repository"):
        guests = _guests_with(driver, name, least, guests)
    modules = _table()["architectures"][architecture]["modules"]
    offered = {guest: about[driver] for guest, about in guests.items() if driver in about}
    image = _table()["images"][framework]
    return Pairing(
        gpu=name,
        architecture=architecture,
        accelerator="gpu",
        driver=driver,
        least_driver=least,
        packages={guest: tuple(about[modules]) for guest, about in offered.items()},
        first={guest: (about["first"],) for guest, about in offered.items() if "first" in about},
        cuda=image["cuda"],
        framework=f"{framework} {image['version']}",
        horovod=image["horovod"],
    )


def oldest(models: Iterable[str]) -> str | None:
    """Return the model of the oldest architecture, whose kernel modules also fit the others; None without models."""
    order = list(_table()["architectures"].items())
    ages = {m: next((age for age, row in enumerate(order) if _is_of(m, *row)), len(order)) for m in models}
    return min(ages, key=ages.__getitem__, default=None)


def distribution(image: str) -> str | None:
    """Return the guest distribution that an image's name indicates ("debian-cloud/debian-12"), or None."""
    return next((release for release, pattern in RELEASES.items() if re.search(pattern, image.lower())), None)


@cache
def _table() -> dict[str, Any]:
    content: dict[str, Any] = yaml_documents.read(Path(__file__).with_name("drivers_to_install.yaml"))
    return content


def _architecture_and_driver(name: str, framework: Framework) -> tuple[str, str]:
    """Return the architecture of a GPU, or of an architecture's own name, and the minimum driver. Raises
    PreflightError.
    """
    architectures = _table()["architectures"]
    for architecture, about in architectures.items():
        if _is_of(name, architecture, about):
            _refuse(name, architecture, framework)
            least = (_table()["images"][framework]["driver"], about.get("drivers", {}).get(_short(name), "0"))
            return architecture, max(least, key=_numbers)
    _refuse_on_all(name, framework)
    usable = ", ".join(_usable(framework))
    raise PreflightError(f"gpu: {name!r} is not in the table of GPUs", f"set gpu.architecture to one of {usable}")


def _refuse_on_all(name: str, framework: Framework) -> None:
    """Raise PreflightError if the framework's image runs on no GPU."""
    images = _table()["images"]
    if reason := images[framework].get("refused"):
        others = ", or ".join(f"`framework: {other}`" for other in images if "refused" not in images[other])
        raise PreflightError(f"gpu: {name!r}: {reason}", f"set {others}, or `gpu.driver: none` to use no GPUs")


def _is_of(name: str, architecture: str, about: Mapping[str, Any]) -> bool:
    """Return whether a GPU, or an architecture's own name, belongs to an architecture."""
    return _words(name)[:1] == [architecture] or _short(name) in about["models"]


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _short(name: str) -> str:
    """Return the name of a GPU as the table has it."""
    return "".join(word for word in _words(name) if not NOISE.fullmatch(word))


def _usable(framework: Framework) -> list[str]:
    return [name for name in _table()["architectures"] if not _refusal(name, framework)]


def _refusal(architecture: str, framework: Framework) -> str:
    """Return why the framework's image does not run on GPUs of this architecture; empty if it does."""
    refused: dict[str, str] = _table()["architectures"][architecture].get("refused", {})
    return str(_table()["images"][framework].get("refused") or refused.get(framework, ""))


def _refuse(name: str, architecture: str, framework: Framework) -> None:
    """Raise PreflightError if the framework's image does not run on GPUs of this architecture."""
    if reason := _refusal(architecture, framework):
        usable = _usable(framework)
        others = [other for other in _table()["images"] if not _refusal(architecture, other)]
        choices = [f"choose GPUs from {usable[0]} to {usable[-1]}"] if usable else []
        choices += [f"`framework: {other}`, which supports them" for other in others]
        raise PreflightError(
            f"gpu: {name} ({architecture}): {reason}",
            f"{', or '.join(choices)}, or `gpu.driver: none` to use no GPUs",
        )


def _guests(distribution: str | None) -> dict[str, Any]:
    """Return the table's rows for ``distribution``, or all if it is None. Raises PreflightError if the table lacks
    ``distribution``.
    """
    rows: dict[str, Any] = _table()["distributions"]
    if distribution is None:
        return rows
    if distribution not in rows:
        raise PreflightError(f"image: no driver is known for {distribution}", f"choose an image of {', '.join(rows)}")
    return {distribution: rows[distribution]}


def _driver(model: str, settings: Gpu, least: str, guests: Mapping[str, Any]) -> str:
    """Choose the source of the driver; auto takes the distribution's own driver if that is new enough."""
    licensed = LICENSED.search(model.lower()) or settings.vgpu_installer is not None
    if settings.driver == "vgpu" or (settings.driver == "auto" and licensed):
        _licence(model, settings)
        return "vgpu"
    if settings.driver != "auto":
        return settings.driver
    return "distro" if all(_new_enough(about, least) for about in guests.values()) else "cuda-repository"


def _licence(model: str, settings: Gpu) -> None:
    licence = {"gpu.vgpu_installer": settings.vgpu_installer, "gpu.vgpu_token": settings.vgpu_token}
    missing = [key for key, value in licence.items() if value is None]
    if missing:
        raise PreflightError(
            f"gpu: {model} as a licensed vGPU needs {' and '.join(missing)}",
            "NVIDIA's licensing portal has both: the guest driver (.run) and the client configuration token (.tok); "
            "if the machine image has both already, set `gpu.driver: image`",
        )


def _guests_with(driver: str, name: str, least: str, guests: Mapping[str, Any]) -> dict[str, Any]:
    """Select the ``guests`` for which a source has a driver that is new enough.

    Args:
        driver: The source: distro or cuda-repository.
        name: The GPU, for the message.
        least: The minimum version of the driver.
        guests: Rows of the table.

    Raises:
        PreflightError: There are none.
    """
    usable = {guest: about for guest, about in guests.items() if _has(about, driver, least)}
    if not usable:
        rows, sources = _table()["distributions"], ("distro", "cuda-repository")
        drivers = ", ".join(f"{guest} has {about['driver']}" for guest, about in guests.items())
        others = [source for source in sources if any(_has(about, source, least) for about in guests.values())]
        images = [guest for guest, about in rows.items() if _has(about, driver, least)]
        absent = "" if driver == "distro" else ", and NVIDIA's repository lacks the branch for it that the deploy pins"
        raise PreflightError(
            f"gpu.driver: {driver}: {name} needs driver {least} or newer, {drivers}{absent}",
            ", or ".join([*(f"`gpu.driver: {source}`" for source in others), f"an image of {', '.join(images)}"]),
        )
    return usable


def _has(about: Mapping[str, Any], driver: str, least: str) -> bool:
    return driver in about and (driver != "distro" or _new_enough(about, least))


def _new_enough(about: Mapping[str, Any], least: str) -> bool:
    return _numbers(about["driver"]) >= _numbers(least)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
