"""JupyterLab on the head, from a deploy with it to one without, with the notebook of docs/notebooks."""

import json
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from orchestrator import packaged_files
from tests.e2e.command import Cli, wait_for

CLUSTER, HEAD = "e2e-notebook", "e2e-notebook-head"
DOCUMENT = packaged_files.PACKAGE.parent / "docs" / "notebooks" / "spirals.ipynb"
PORT = 8888  # on the head


@dataclass
class Browser:
    """An HTTP client that keeps cookies and follows redirections like a browser."""

    address: str
    cookies: CookieJar = field(default_factory=CookieJar)

    def __call__(self, path: str, **request: Any) -> tuple[int, str]:
        """Return status and body of the answer to a request."""
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self.cookies)]
        target = urllib.request.Request(urllib.parse.urljoin(self.address, path), **request)
        try:
            with urllib.request.build_opener(*handlers).open(target, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    @property
    def token(self) -> str:
        """Return the token against requests that other sites forge."""
        return next(cookie.value or "" for cookie in self.cookies if cookie.name == "_xsrf")

    def login(self, password: str) -> int:
        self("/login")
        form = urllib.parse.urlencode({"_xsrf": self.token, "password": password}).encode()
        return self("/login", data=form)[0]


@dataclass
class Tunnel:
    """A running `orchestrator notebook` and its output."""

    command: "subprocess.Popen[str]"
    address: str
    password: str

    @property
    def port(self) -> int:
        return urllib.parse.urlsplit(self.address).port or 0


@pytest.fixture(scope="module")
def deployed(cli: Cli) -> Iterator[Any]:
    yield cli.json("deploy", "--nodes", "1", "--jupyter", "--no-monitoring", cluster=CLUSTER)
    cli("teardown", cluster=CLUSTER)


@pytest.fixture(scope="module")
def tunnel(cli: Cli, deployed: Any) -> Iterator[Tunnel]:
    with cli.start("notebook", cluster=CLUSTER) as command:
        assert command.stdout
        lines = [next(command.stdout) for _ in range(2)]
        address, password = (re.match(r"\w+: (\S+)", line) for line in lines)
        assert address, lines
        assert password, lines
        yield Tunnel(command, address[1], password[1])
        command.kill()


def on_head(cli: Cli, *argv: str) -> str:
    return cli("ssh", HEAD, "--", *argv, cluster=CLUSTER).stdout


def test_jupyterlab_listens_on_the_heads_loopback_only(cli: Cli, deployed: Any) -> None:
    wait_for("JupyterLab", lambda: f":{PORT} " in on_head(cli, "ss", "-ltnH"), 120 * cli.patience)
    state, *listening = on_head(cli, "bash", "-c", "sudo systemctl is-active notebook; ss -ltnH").splitlines()
    addresses = [line.split()[3] for line in listening]
    assert state == "active"
    assert [address for address in addresses if address.endswith(f":{PORT}")] == [f"127.0.0.1:{PORT}"]
    with pytest.raises(OSError, match=r"refused|timed out|unreachable"):
        socket.create_connection((deployed["cluster"]["nodes"][HEAD]["private_address"], PORT), 3)


def test_head_stores_password_hash_for_its_account_only(cli: Cli, tunnel: Tunnel) -> None:
    path = "/home/orchestrator/.orchestrator-notebook.py"
    output = on_head(cli, "sh", "-c", f"stat -c '%a %U' {path}; cat {path}; ps e -ww -u orchestrator")
    assert output.startswith("600 orchestrator\n")
    assert output.count("argon2:") == 1
    assert tunnel.password not in output


def test_login_requires_the_password(tunnel: Tunnel) -> None:
    browser = Browser(tunnel.address)
    assert (browser("/login")[0], browser("/api/contents")[0]) == (200, 403)
    assert browser.login(tunnel.password + "!") == 401
    assert browser("/api/contents")[0] == 403


def test_notebook_is_exported_as_script_for_all_nodes(cli: Cli, tunnel: Tunnel, tmp_path: Path) -> None:
    browser = Browser(tunnel.address)
    assert browser.login(tunnel.password) == 200
    body = json.dumps({"type": "notebook", "format": "json", "content": json.loads(DOCUMENT.read_text())}).encode()
    headers = {"X-XSRFToken": browser.token, "Content-Type": "application/json"}
    saved, answer = browser(f"/api/contents/{DOCUMENT.name}", data=body, headers=headers, method="PUT")
    assert saved == 201, answer
    run_all = f"cd /shared/notebooks && /opt/orchestrator/bin/python -m nbconvert --execute --inplace {DOCUMENT.name}"
    on_head(cli, "bash", "-c", run_all)
    outputs = [
        cell.get("outputs") for cell in json.loads(browser(f"/api/contents/{DOCUMENT.name}")[1])["content"]["cells"]
    ]
    assert "accuracy" in json.dumps(outputs)
    script = tmp_path / "spirals.py"
    script.write_text(on_head(cli, "cat", f"/shared/notebooks/{script.name}"))
    output = cli("run", "--", "python", str(script), cluster=CLUSTER).stdout
    match = re.search(r"accuracy on new points: ([\d.]+)%", output)
    assert match, output
    assert float(match[1]) > 90


def test_interrupt_closes_the_tunnel(tunnel: Tunnel) -> None:
    tunnel.command.send_signal(signal.SIGINT)
    assert tunnel.command.wait(20) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", tunnel.port), 3)


def test_second_deploy_changes_nothing(cli: Cli, deployed: Any) -> None:
    assert cli.json("deploy", cluster=CLUSTER)["changed"] == {HEAD: 0}


def test_deploy_without_jupyterlab_keeps_the_notebooks(cli: Cli, deployed: Any) -> None:
    assert cli.json("deploy", "--no-jupyter", cluster=CLUSTER)["changed"][HEAD] > 0
    state = "sudo systemctl is-active notebook; ls -A /shared/notebooks /home/orchestrator; ss -ltnH"
    output = on_head(cli, "bash", "-c", f"{state}; true")
    assert output.startswith("inactive\n")
    assert DOCUMENT.name in output
    assert ".orchestrator-notebook.py" not in output
    assert f":{PORT} " not in output
    assert "has no JupyterLab" in cli("notebook", code=1, cluster=CLUSTER).stderr
