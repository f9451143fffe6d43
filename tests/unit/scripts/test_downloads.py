"""Downloads use https and are checked against values in this repository."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from orchestrator import packaged_files, recipes
from orchestrator.config import Local
from tests.conftest import Missing

ROOT = packaged_files.PACKAGE.parent
ROLES = ROOT / "ansible" / "roles"
FOLDERS = ("ansible", "docker", "infra", "orchestrator", "scripts", "terraform")
BY_DIGEST = re.compile(r"[\w./-]+(:[\w.-]+)?@sha256:[0-9a-f]{64}")
# Loopback and Grafana's provisioning of it; an adapter of requests for a scheme; composed addresses.
PLAIN = re.compile(r"http://(?!127\.0\.0\.1|localhost|\{|\")\S*")


def texts() -> Iterator[tuple[Path, str]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".json"):
                yield path.relative_to(ROOT), path.read_text()
    yield Path("Makefile"), (ROOT / "Makefile").read_text()


def tasks(content: Any) -> Iterator[dict[str, Any]]:
    """Yield every task of a task file, including those in blocks."""
    for task in content or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks(task.get(part))


def role_tasks() -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(ROLES.glob("*/tasks/*.yml")):
        yield from ((path.relative_to(ROLES), task) for task in tasks(yaml.safe_load(path.read_text())))


def test_nothing_is_downloaded_by_plain_http() -> None:
    assert [(str(path), match.group()) for path, text in texts() for match in PLAIN.finditer(text)] == []


def test_downloads_of_roles_have_a_checksum_or_fingerprint() -> None:
    downloads = [
        (path, task["ansible.builtin.get_url"]) for path, task in role_tasks() if "ansible.builtin.get_url" in task
    ]
    assert len(downloads) == 2
    checked = [path for path, arguments in downloads if str(arguments.get("checksum", "")).startswith("sha256:")]
    by_fingerprint = [path for path, _ in downloads if "nvidia_toolkit_fingerprint" in (ROLES / path).read_text()]
    assert len(checked) + len(by_fingerprint) == len(downloads)


def test_apt_and_other_modules_of_roles_check_what_they_fetch() -> None:
    packages = [task["ansible.builtin.apt"] for _, task in role_tasks() if "ansible.builtin.apt" in task]
    assert [arguments for arguments in packages if not str(arguments.get("deb", "/")).startswith("/")] == []
    assert [
        arguments for arguments in packages if arguments.get("allow_unauthenticated") or arguments.get("force")
    ] == []
    modules = {name for _, task in role_tasks() for name in task}
    assert modules & {"ansible.builtin.apt_key", "ansible.builtin.git", "ansible.builtin.pip"} == set()


@pytest.mark.parametrize("path", ["nvidia", "dcgm_exporter", "grafana"])
def test_images_and_checksums_of_roles_are_complete(path: str) -> None:
    defaults = yaml.safe_load((ROLES / path / "defaults" / "main.yml").read_text())
    images = {key: value for key, value in defaults.items() if key.endswith("_image") and "lookup(" not in value}
    file = ROOT / "infra" / path / "image.txt"
    named = [*images.values(), *([file.read_text().strip()] if file.exists() else [])]
    assert named or path == "nvidia"
    assert [value for value in named if not BY_DIGEST.fullmatch(value)] == []
    for checksum in defaults.get("nvidia_cuda_keyrings", {}).values():
        assert re.fullmatch("[0-9a-f]{64}", checksum)


def test_base_image_is_named_by_its_digest() -> None:
    assert BY_DIGEST.fullmatch(Local().base_image)
    result = subprocess.run(
        ["sh", "-c", _line("scripts/setup.sh", "base=") + '; echo "$base"'],
        env={**os.environ, "here": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == Local().base_image


def _line(name: str, start: str) -> str:
    return next(line for line in (ROOT / name).read_text().splitlines() if line.startswith(start))


def test_pip_installs_only_locked_files_and_this_project() -> None:
    used = re.compile(r"(?<![\w`])pip (?:--?\S+ )*(?:install|download|wheel)\b.*")
    commands = [line.group() for path, text in texts() if path.suffix != ".py" for line in used.finditer(text)]
    assert len(commands) >= 4
    assert [
        line for line in commands if "--require-hashes" not in line and not re.search(r"--no-deps .*\.$|--quiet", line)
    ] == []


def test_shell_scripts_download_only_by_pip_apt_and_docker() -> None:
    scripts = [
        (path, text) for path, text in texts() if path.parts[0] in ("docker", "scripts") and path.suffix != ".py"
    ]
    assert [path for path, text in scripts if re.search(r"\b(curl|wget)\b", text)] == []


def test_data_sets_use_https_and_checksums_of_every_file() -> None:
    sites = {name: about for name, about in recipes.datasets().items() if "site" in about}
    assert set(sites) >= {"mnist", "fashion_mnist", "cifar10"}
    assert [name for name, about in sites.items() if not about["site"].startswith("https://")] == []
    sums = [checksum for about in sites.values() for checksum in about["files"].values()]
    assert [checksum for checksum in sums if not re.fullmatch("[0-9a-f]{64}", checksum)] == []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the address of a web server on loopback, and the directory that it serves."""
    directory = tmp_path / "site"
    directory.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=directory))
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", directory
    server.shutdown()
    server.server_close()


def new_key(home: Path, name: str) -> tuple[str, bytes]:
    """Create a key; return its fingerprint and its armoured public part."""
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    subprocess.run([*gpg, "--quick-generate-key", name, "ed25519", "sign"], check=True, capture_output=True)
    listed = subprocess.run([*gpg, "--list-keys", "--with-colons"], check=True, capture_output=True, text=True).stdout
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
    exported = subprocess.run([*gpg, "--armor", "--export"], check=True, capture_output=True).stdout
    return re.findall(r"^fpr:+(\w+):", listed, re.MULTILINE)[0], exported


def trust(tmp_path: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the role's tasks that import the toolkit's key, on this machine."""
    playbook = [
        {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.include_role": {"name": "nvidia", "tasks_from": "verify_key"}}],
        }
    ]
    (tmp_path / "play.json").write_text(json.dumps(playbook))
    inputs = {
        "gpu_driver": "image",
        "gpu_least_driver": "525",
        "current_configuration_of_node": {"system": "debian 12", "kernel": "6-amd64"},
    }
    argv = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "-i",
        "localhost,",
        str(tmp_path / "play.json"),
        "--extra-vars",
        json.dumps({**inputs, **variables, "ansible_python_interpreter": sys.executable}),
    ]
    environment = {**os.environ, "ANSIBLE_ROLES_PATH": str(ROLES), "ANSIBLE_LOCAL_TEMP": str(tmp_path / "ansible")}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("served", ["the key", "another key", "both"])
def test_only_the_toolkits_own_key_is_trusted(
    served: str, site: tuple[str, Path], tmp_path: Path, missing: Missing
) -> None:
    if os.geteuid() != 0 or not shutil.which("gpg"):
        missing("this needs root, who owns what the tasks make, and gpg")
    fingerprint, key = new_key(tmp_path / "own", "toolkit")
    _, other = new_key(tmp_path / "other", "somebody")
    (site[1] / "gpgkey").write_bytes({"the key": key, "another key": other, "both": key + other}[served])
    target = tmp_path / "toolkit.asc"
    result = trust(
        tmp_path, nvidia_toolkit=site[0], nvidia_toolkit_key=str(target), nvidia_toolkit_fingerprint=fingerprint
    )
    assert (result.returncode == 0) == (served == "the key"), result.stdout
    assert target.exists() == (served == "the key")
    assert served == "the key" or f"expected {fingerprint}" in re.sub(r"\s+", " ", result.stdout)
