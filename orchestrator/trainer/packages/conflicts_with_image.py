"""Packages of the image that no overlay may replace, and requirements that ask for other versions of them.

The frameworks, and whatever they need that has compiled code, keep the version of the image: they were built for each
other and are loaded into one process. Packages without compiled code may be replaced within the ranges that the
frameworks state, so that a list of versions from another machine mostly works.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from orchestrator.schema.packages import PackageConflict

FRAMEWORKS = ("tensorflow", "tensorflow-cpu", "tf-keras", "keras", "torch", "horovod")
# Programs that are published under several names: a requirement of one name is met by any other.
SAME = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu")


@dataclass(frozen=True)
class Protected:
    """Protected packages by canonical name.

    ``exact`` has versions, ``ranges`` what the frameworks ask for, ``needed_by`` the framework, and ``aliases`` the
    versions of names under which an installed package is published too.
    """

    exact: dict[str, str]
    ranges: dict[str, list[str]]
    needed_by: dict[str, str]
    aliases: dict[str, str]

    def constraints(self) -> list[str]:
        """Return the lines of a constraints file for pip."""
        exact = [f"{name}=={version}" for name, version in self.exact.items()]
        return [*exact, *(f"{name}{spec}" for name, specs in self.ranges.items() for spec in specs if spec)]


def protected(*sites: Path) -> Protected:
    """Find the protected packages among those in the directories ``sites``; the first of a name counts."""
    everything = [*metadata.distributions(path=[*map(str, sites)])]
    installed: dict[str, metadata.Distribution] = {
        canonicalize_name(name): dist
        for dist in reversed(everything)
        if (name := dist.metadata["Name"])  # an interrupted pip leaves packages without one
    }
    exact, ranges, needed_by = dict[str, str](), dict[str, list[str]](), dict[str, str]()
    for root in (name for name in FRAMEWORKS if name in installed):
        for name, spec in _needs(root, installed):
            needed_by.setdefault(name, root)
            if name in FRAMEWORKS or _is_compiled(installed[name]):
                exact[name] = installed[name].version
            else:
                ranges.setdefault(name, []).append(spec)
    aliases = {name: exact[twin] for twin in SAME if twin in exact for name in SAME if name not in exact}
    needed_by |= {name: name for name in aliases}
    return Protected(exact | aliases, ranges, needed_by, aliases)


def _needs(root: str, installed: Mapping[str, metadata.Distribution]) -> Iterator[tuple[str, str]]:
    """Yield ``root`` and everything that it needs, each with the range of versions."""
    visited, pending = {root}, [root]
    yield root, ""
    while pending:
        dist = installed[pending.pop()]
        # What is installed of a framework's extras, as the libraries of CUDA, belongs to it.
        extras = dist.metadata.get_all("Provides-Extra", []) if dist is installed[root] else []
        for text in dist.requires or []:
            need = Requirement(text)
            name = canonicalize_name(need.name)
            if name in installed and _is_meant(need, extras):
                yield name, str(need.specifier)
                pending += [name] if name not in visited else []
                visited.add(name)


def _is_meant(need: Requirement, extras: Sequence[str] = ()) -> bool:
    """Tell whether ``need`` is meant for this machine, as it is or for one of ``extras``."""
    return need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _is_compiled(dist: metadata.Distribution) -> bool:
    return "Root-Is-Purelib: true" not in (dist.read_text("WHEEL") or "")


def conflicts(lines: Sequence[str], image: Protected) -> list[PackageConflict]:
    """Return the lines that ask for a package that ``image`` has in another version, or for its source."""
    needs = [need for line in lines if (need := requirement(line)) is not None]
    clashes = [conflict(image, need, None) for need in needs if canonicalize_name(need.name) in image.exact]
    return [clash for clash in clashes if clash is not None]


def conflict(image: Protected, need: Requirement, by: str | None) -> PackageConflict | None:
    """Return the conflict of ``need``, of the package ``by`` or of the user, with a package of the image, if any."""
    name = canonicalize_name(need.name)
    if name not in image.needed_by:
        return None
    installed = image.exact.get(name) or metadata.version(name)
    if need.url is None and need.specifier.contains(installed, prereleases=True):
        return None
    text, needed_by = str(need)[:1000], image.needed_by[name]
    return PackageConflict(name=name, wanted=text, by=by, installed=installed, needed_by=needed_by)


def requirement(line: str) -> Requirement | None:
    """Parse a line of a requirements file; None if it is an option or a path, or is not meant for this machine."""
    try:
        need = Requirement(line.partition(" --")[0])
    except InvalidRequirement:
        return None
    return need if _is_meant(need) else None
