"""Nodes with a user's image, and images that cannot be used."""

from pathlib import Path

import pytest

from orchestrator.cluster import PYTHON
from tests.e2e.command import Cli
from tests.pytorch.conftest import CLUSTER, HEAD

# A user's image: Python, TensorFlow and Horovod in another directory, and no worker side.
ELSEWHERE = """
ARG BASE
FROM ${BASE}
RUN mv /opt/orchestrator /opt/mine; \
    rm -r /opt/mine/src /opt/mine/digest /opt/mine/lib/python3.11/site-packages/orchestrator.pth \
      /opt/mine/lib/python3.11/site-packages/prometheus_client
ENV PATH=/opt/mine/bin:$PATH
"""


def dockerfile(directory: Path, text: str) -> str:
    path = directory / "image" / "Dockerfile"
    path.parent.mkdir()
    path.write_text(text)
    return str(path)


def deploy(cli: Cli, image: str, code: int = 0) -> str:
    (cli.state / "cluster.yaml").write_text(f"image: {image}\nnodes: 2\nmonitoring: {{enabled: false}}\n")
    return cli("deploy", "--config", "cluster.yaml", cluster=CLUSTER, code=code).stderr


@pytest.mark.parametrize(
    ("removed", "problem"),
    [
        ("/opt/orchestrator/bin/python* /usr/bin/python3*", "it has no Python"),
        ("/opt/orchestrator/lib/python3.11/site-packages/horovod", "its Python has no Horovod"),
    ],
)
def test_unusable_image_is_refused_with_the_reason(cli: Cli, tmp_path: Path, removed: str, problem: str) -> None:
    image = dockerfile(tmp_path, f"ARG BASE\nFROM ${{BASE}}\nRUN rm -r {removed}\n")
    assert f"the image cannot be used: {problem}" in deploy(cli, image, code=1)


def test_nodes_have_image_of_a_dockerfile_and_worker_side(cli: Cli, tmp_path: Path) -> None:
    deploy(cli, dockerfile(tmp_path, ELSEWHERE))
    assert cli.json("check", cluster=CLUSTER)["expected_sum"] == 3.0
    result = cli("ssh", HEAD, "--", PYTHON, "-c", "import sys; print(sys.prefix)", cluster=CLUSTER)
    assert result.stdout == "/opt/mine\n"
