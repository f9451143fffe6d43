"""Provider versions and checksums are locked: a mirror on this machine offers forged ones."""

import platform
import shutil
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.errors import CommandFailed
from orchestrator.terraform import sources
from tests.contract import providers

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
SOURCE, LOCKED = "terraform-provider-openstack/openstack", "3.4.0"


def offer(mirror: Path, version: str, content: str) -> None:
    """Add a provider for OpenStack that init can install but no program can run."""
    for registry in ("registry.terraform.io", "registry.opentofu.org"):
        directory = mirror / registry / SOURCE / version / f"linux_{ARCHITECTURE}"
        directory.mkdir(parents=True, exist_ok=True)
        program = directory / f"terraform-provider-openstack_v{version}"
        program.write_text(content)
        program.chmod(0o755)


@pytest.fixture
def mirror(terraform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory, settings = tmp_path / "mirror", tmp_path / "settings.tfrc"
    settings.write_text(f'provider_installation {{\n filesystem_mirror {{\n path = "{directory}"\n }}\n}}\n')
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(settings))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    offer(directory, LOCKED, "#!/bin/sh\nexit 1\n")
    return directory


def initialise() -> Path:
    """Initialise the root like an apply, and return its lock file."""
    state_dir = state.for_cluster("demo")
    shutil.rmtree(state_dir.terraform / "openstack" / ".terraform", ignore_errors=True)
    sources.initialise(state_dir, "openstack")
    return state_dir.terraform / "openstack" / ".terraform.lock.hcl"


def test_init_takes_the_version_that_the_root_names(mirror: Path) -> None:
    offer(mirror, "3.99.0", "#!/bin/sh\n# newer\n")
    assert f'version     = "{LOCKED}"' in initialise().read_text()


def test_changed_contents_of_a_locked_version_are_refused(mirror: Path) -> None:
    before = initialise().read_text()
    offer(mirror, LOCKED, "#!/bin/sh\n# another\n")
    with pytest.raises(CommandFailed, match="terraform init") as caught:
        initialise()
    assert "checksums" in " ".join(caught.value.tail)
    assert (state.for_cluster("demo").terraform / "openstack" / ".terraform.lock.hcl").read_text() == before


def test_version_locked_by_an_older_root_is_replaced(mirror: Path) -> None:
    offer(mirror, "3.3.2", "#!/bin/sh\n# older\n")
    lock = initialise()
    lock.write_text(lock.read_text().replace(LOCKED, "3.3.2"))
    assert f'version     = "{LOCKED}"' in initialise().read_text()


def test_provider_is_installed_once_for_all_roots_unless_its_copy_is_damaged(mirror: Path) -> None:
    for unpacked in list(mirror.glob(f"*/{SOURCE}/{LOCKED}/*")):
        packed = unpacked.parent.parent / f"terraform-provider-openstack_{LOCKED}_{unpacked.name}"
        shutil.make_archive(str(packed), "zip", unpacked)
        shutil.rmtree(unpacked.parent)

    def installed(cluster: str) -> bool:
        state_dir = state.for_cluster(cluster)
        sources.initialise(state_dir, "openstack")
        return f"Installing {SOURCE} v{LOCKED}" in state_dir.log("terraform").read_text()

    assert [installed("one"), installed("two")] == [True, False]
    (program,) = (state.cache() / "terraform").glob(f"*/.terraform/providers/*/{SOURCE}/*/*/*")
    program.unlink()
    program.write_text("damaged")
    assert installed("three")


@pytest.mark.parametrize("root", providers.roots())
def test_every_root_names_one_version_per_provider(root: str) -> None:
    required = [
        block for settings in providers.blocks(root, "terraform") for block in settings.get("required_providers", [])
    ]
    versions = [about["version"] for block in required for about in block.values()]
    assert (len(versions) == 0) == (root == "local")
    assert [version for version in versions if not version.replace(".", "").isdigit()] == []
