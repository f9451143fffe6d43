"""`make demo` and the first half of the story on a fresh machine of another distribution, by a user with sudo.

The machine is a container with systemd as its first process, which runs its own Docker Engine.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.ssh import key_pair
from orchestrator.terraform import program
from tests.distributions.machines import RELEASES, START, WITH_DOCKER, Release, make
from tests.e2e.command import docker
from tests.e2e.existing_machines import ExistingMachines

OWNER, HOME = "e2e-from-nothing", "/home/lab/orchestrator"
TESTED = [release for release in RELEASES if release.name in ("debian 13", "ubuntu 24.04")]
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
SETTINGS = {"CI": "true", "HOME": "/home/lab", "PIP_CERT": BUNDLE, "SSL_CERT_FILE": BUNDLE}
FIRST_HALF = (
    "test_deploy_creates_two_nodes_that_accept_keys_only",
    "test_second_deploy_changes_nothing",
    "test_status_shows_every_node_healthy",
    "test_nodes_resolve_their_own_name_to_loopback_like_debian",
    "test_only_ssh_is_reachable_from_outside_the_nodes_network",
    "test_check_proves_allreduce_on_every_rank",
    "test_train_reaches_known_accuracy_on_two_nodes",
    "test_run_directory_has_results_table_and_checkpoint",
    "test_same_seed_gives_same_weights",
    "test_script_runs_with_its_module_and_unchanged_arguments",
    "test_teardown_leaves_only_results",
    "test_second_teardown_finds_nothing",
)
SOURCES = Path(__file__).parents[2]


def on_machine(name: str, command: str) -> str:
    """Run a shell command as the user `lab` in the clone, and print its output while it runs."""
    passed = {key: os.environ[key] for key in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL") if key in os.environ}
    words = [word for key, value in {**SETTINGS, **passed}.items() for word in ("--env", f"{key}={value}")]
    argv = ["docker", "exec", "--user", "lab", "--workdir", HOME, *words, name, "sh", "-c", command]
    output = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            output.append(line)
    assert process.returncode == 0, f"{command}: exit code {process.returncode}\n{''.join(output[-40:])}"
    return "".join(output)


def fetch_clone(name: str, directory: Path) -> None:
    """Copy a clean clone of the commit, this machine's CA bundle and Terraform to the machine."""
    subprocess.run(["git", "clone", "--quiet", "--no-local", str(SOURCES), str(directory / "clone")], check=True)
    docker("cp", str(directory / "clone"), f"{name}:{HOME}")
    docker("cp", os.environ.get("SSL_CERT_FILE", BUNDLE), f"{name}:{BUNDLE}")
    docker("cp", "--follow-link", program(), f"{name}:/usr/local/bin/terraform")
    docker("exec", name, "chown", "--recursive", "lab:", HOME)
    install = "apt-get -qq update && apt-get -qq install --yes --no-install-recommends git make python3"
    docker("exec", "--env", "DEBIAN_FRONTEND=noninteractive", name, "sh", "-c", install)


@pytest.fixture(scope="module", params=TESTED, ids=lambda release: release.suite)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a machine with git, make, python3 and a clone of this commit, and yield its name."""
    release: Release = request.param
    directory, existing = tmp_path_factory.mktemp(release.suite), ExistingMachines(OWNER)
    name, key = f"{OWNER}-{release.suite}", directory / "id_ed25519"
    try:
        existing.prepare()
        make(release)
        key_pair.public_half(key)
        existing.start(name, release.image, key, WITH_DOCKER, ("sh", "-c", START))
        fetch_clone(name, directory)
        yield name
    finally:
        existing.remove()
        shutil.rmtree(directory / "clone", ignore_errors=True)


def test_make_demo_trains_and_tears_down(machine: str) -> None:
    output = on_machine(machine, "make demo")
    assert "epoch 3/3" in output
    assert ", 0 left" in output
    assert "demo: done" in output


def test_first_half_of_the_story_passes(machine: str) -> None:
    on_machine(machine, "make --silent .venv/installed-dev")
    tests = " ".join(f"tests/e2e/test_story.py::{name}" for name in FIRST_HALF)  # pytest refuses names that are gone
    story = f"-m pytest --exitfirst -q {tests}"
    output = on_machine(machine, f"scripts/with-docker.sh .venv/bin/python {story}")
    assert " passed" in output.splitlines()[-1]
    assert "skipped" not in output.splitlines()[-1]


def test_no_escape_from_a_local_node_works(machine: str) -> None:
    output = on_machine(
        machine, "scripts/with-docker.sh .venv/bin/python -m pytest -q tests/contract/test_confinement.py"
    )
    assert output.splitlines()[-1].startswith("3 passed")
