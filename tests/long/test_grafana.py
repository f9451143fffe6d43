"""Grafana's container next to a local head, with an image that stands in for Grafana's and needs no registry.

docs/grafana.md describes the same test with Grafana itself.
"""

import base64
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Cli, docker

CLUSTER = "e2e-grafana"
HEAD, GRAFANA, DATA = (f"{CLUSTER}-{name}" for name in ("head", "grafana", "grafana-data"))
IMAGE = "orchestrator-test/grafana-stand-in:1"
SCRIPT = Path(__file__).parent / "scripts" / "grafana_stand_in.py"
DOCKERFILE = """
FROM {base}
COPY {script} /{script}
ENTRYPOINT ["/opt/orchestrator/bin/python", "/{script}"]
"""
SETTINGS = f"nodes: 1\nmonitoring:\n  grafana_image: {IMAGE}\n"


@pytest.fixture(scope="module")
def settings(cli: Cli, node_image: str) -> Iterator[str]:
    """Write a configuration whose image is in no registry and not yet on this engine."""
    subprocess.run(["docker", "image", "rm", "--force", IMAGE], capture_output=True, check=False)
    file = cli.state / "grafana.yaml"
    file.write_text(SETTINGS)
    yield str(file)
    cli("teardown", cluster=CLUSTER)
    subprocess.run(["docker", "image", "rm", "--force", IMAGE], capture_output=True, check=False)


@pytest.fixture(scope="module")
def deployed_without_image(cli: Cli, settings: str) -> Any:
    """Deploy without an image of Grafana."""
    return cli("deploy", "--config", settings, cluster=CLUSTER)


@pytest.fixture(scope="module")
def deployed(
    cli: Cli, settings: str, deployed_without_image: Any, node_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """Deploy again after the image was built by hand."""
    context = tmp_path_factory.mktemp("stand-in")
    shutil.copy(SCRIPT, context)
    (context / "Dockerfile").write_text(DOCKERFILE.format(base=node_image, script=SCRIPT.name))
    docker("build", "--quiet", "--tag", IMAGE, str(context))
    return cli("deploy", "--config", settings, cluster=CLUSTER)


@contextmanager
def dashboard(cli: Cli) -> Iterator[dict[str, Any]]:
    """Open the tunnel of `orchestrator dashboard` and yield the object that it prints."""
    with cli.dashboard(CLUSTER) as (_, addresses):
        yield addresses


def get(described: dict[str, Any], path: str, secret: str) -> Any:
    """Return the answer to a request with this password, or the HTTP status of a refusal."""
    login = base64.b64encode(f"{described['user']}:{secret}".encode()).decode()
    request = urllib.request.Request(described["grafana"] + path, headers={"Authorization": f"Basic {login}"})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code


def read_secret(described: dict[str, Any]) -> str:
    return str(json.loads(Path(described["password_file"]).read_text())["password"])


def inspect_container() -> Any:
    (container,) = json.loads("\n".join(docker("inspect", GRAFANA)))
    return container


def test_missing_image_is_reported_in_one_line_with_remedy(deployed_without_image: Any) -> None:
    (line,) = [line for line in deployed_without_image.stderr.splitlines() if "no Grafana" in line]
    assert f"no image {IMAGE} and cannot pull it" in line
    assert "`docker load`" in line
    assert "monitoring.grafana_image" in line


def test_image_built_by_hand_is_used_by_next_deploy(deployed: Any) -> None:
    assert inspect_container()["Image"] == docker("image", "inspect", "--format", "{{.Id}}", IMAGE)[0]


def test_container_has_cluster_labels_and_the_heads_network(deployed: Any) -> None:
    labels = [json.loads(docker("inspect", "--format", "{{json .Config.Labels}}", name)[0]) for name in (GRAFANA, HEAD)]
    names = ("orchestrator.cluster", "orchestrator.id")
    assert [labels[0][name] for name in names] == [labels[1][name] for name in names]
    assert (
        inspect_container()["HostConfig"]["NetworkMode"]
        == f"container:{docker('inspect', '--format', '{{.Id}}', HEAD)[0]}"
    )


def test_container_has_no_privileges_and_shows_no_secret(cli: Cli, deployed: Any) -> None:
    container = inspect_container()
    host = container["HostConfig"]
    assert (container["Config"]["User"], host["ReadonlyRootfs"], host["CapDrop"]) == ("472:0", True, ["ALL"])
    assert (host["Privileged"], host["CapAdd"], host["SecurityOpt"]) == (False, None, ["no-new-privileges"])
    with dashboard(cli) as addresses:
        assert read_secret(addresses) not in json.dumps(container)


def test_user_sees_five_dashboards_and_data_of_prometheus(cli: Cli, deployed: Any) -> None:
    with dashboard(cli) as described:
        assert get(described, "/api/search", "another") == 401
        assert len(get(described, "/api/search", read_secret(described))) == 5
        answer = get(described, "/api/datasources/proxy/uid/prometheus/api/v1/query?query=up", read_secret(described))
        assert {series["metric"]["node"] for series in answer["data"]["result"]} == {HEAD}


def test_deploy_without_changes_keeps_the_container(cli: Cli, settings: str, deployed: Any) -> None:
    before = inspect_container()["Id"]
    assert cli.json("deploy", "--config", settings, cluster=CLUSTER)["changed"] == {HEAD: 0}
    assert inspect_container()["Id"] == before


@pytest.mark.parametrize("harm", [("rm", "--force", GRAFANA), ("kill", GRAFANA), ("restart", "--time", "5", HEAD)])
def test_deploy_repairs_the_container(cli: Cli, settings: str, deployed: Any, harm: tuple[str, ...]) -> None:
    docker(*harm)
    cli("deploy", "--config", settings, cluster=CLUSTER)
    with dashboard(cli) as described:
        assert len(get(described, "/api/search", read_secret(described))) == 5


def test_new_password_replaces_the_old_one(cli: Cli, settings: str, deployed: Any) -> None:
    with dashboard(cli) as described:
        before = read_secret(described)
    file = cli.state / "secret"
    file.write_text("another-password\n")
    cli("deploy", "--config", settings, "--grafana-password-file", str(file), cluster=CLUSTER)
    with dashboard(cli) as described:
        assert get(described, "/api/search", before) == 401
        assert len(get(described, "/api/search", "another-password")) == 5


def test_container_follows_monitoring_off_and_on(cli: Cli, settings: str, deployed: Any) -> None:
    cli("deploy", "--config", settings, "--no-monitoring", cluster=CLUSTER)
    assert docker("ps", "--all", "--quiet", "--filter", f"name={GRAFANA}") == []
    cli("deploy", "--config", settings, cluster=CLUSTER)
    assert inspect_container()["State"]["Running"]


def test_teardown_lists_container_and_volume_and_leaves_nothing(cli: Cli, deployed: Any) -> None:
    receipt = cli("teardown", cluster=CLUSTER).stdout.splitlines()
    assert {f"container {GRAFANA}: gone", f"volume {DATA}: gone"} <= set(receipt)
    assert receipt[-1].endswith(" 0 left")
    for listing in (("ps", "--all"), ("volume", "ls"), ("network", "ls")):
        assert docker(*listing, "--quiet", "--filter", f"label=orchestrator.cluster={CLUSTER}") == []
