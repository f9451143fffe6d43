"""JupyterLab on the control side: the password and its hash, the role's variables, the command, the notebook."""

import ast
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from typer.testing import CliRunner

from orchestrator import packaged_files, state
from orchestrator.cli import app
from orchestrator.config import Config
from orchestrator.errors import NodesFailed
from orchestrator.services import jupyter as services_jupyter
from orchestrator.state import StateDir
from tests import builders
from tests.unit.conftest import Cli, StandIn

GIVEN = "correct horse battery"
DOCUMENTS = packaged_files.PACKAGE.parent / "docs" / "notebooks"
GUIDE = DOCUMENTS.parent / "guide" / "notebooks.md"


def deploy(
    state_dir: StateDir, jupyter: bool = True, password: str | None = None, fails: bool = False
) -> dict[str, Any]:
    """Provision the notebook server like a deploy, and return Ansible's variables."""
    settings = Config(name=state_dir.name, jupyter=jupyter, jupyter_password=password)
    state.write(
        state_dir, builders.read_record(state_dir).model_copy(update={"config": settings.model_dump(mode="json")})
    )
    with services_jupyter.provision_password(state_dir, settings):
        variables = services_jupyter.for_ansible(state_dir, builders.read_record(state_dir))
        if fails:
            raise NodesFailed("configuration failed", {"default-head": "no"})
    return variables


def stored_secret(state_dir: StateDir) -> services_jupyter.Secret:
    return services_jupyter.Secret.model_validate_json(state_dir.notebook.read_text())


def unpadded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4))


def verifies(password: str, hashed: str) -> bool:
    """Verify a password with the parameters in its hash, like JupyterLab."""
    kind, version, costs, salt, digest = hashed.removeprefix("argon2:$").split("$")
    assert (kind, version) == ("argon2id", "v=19")
    memory, passes, lanes = (int(cost.partition("=")[2]) for cost in costs.split(","))
    derive = Argon2id(salt=unpadded(salt), length=32, iterations=passes, lanes=lanes, memory_cost=memory)
    return derive.derive(password.encode()) == unpadded(digest)


def test_configured_password_is_used_and_in_no_other_file() -> None:
    state_dir = builders.deployed()
    deploy(state_dir, password=GIVEN)
    holders = [path for path in state_dir.path.rglob("*") if path.is_file() and GIVEN in path.read_text()]
    assert holders == [state_dir.notebook]
    assert services_jupyter.password(state_dir, builders.read_record(state_dir)) == GIVEN


def test_hash_matches_the_password_and_is_salted() -> None:
    hashed = services_jupyter.hashed(GIVEN)
    assert verifies(GIVEN, hashed)
    assert not verifies(GIVEN + "!", hashed)
    assert services_jupyter.hashed(GIVEN) != hashed


def test_hash_is_stored_and_changes_only_with_the_password() -> None:
    state_dir = builders.deployed()
    deploy(state_dir)
    first = stored_secret(state_dir)
    assert verifies(first.password, first.hashed)
    deploy(state_dir)
    assert stored_secret(state_dir) == first
    deploy(state_dir, password=GIVEN)
    assert verifies(GIVEN, stored_secret(state_dir).hashed)


def test_disabled_jupyterlab_needs_no_variables() -> None:
    assert deploy(builders.deployed(), jupyter=False) == {}


def test_ansible_gets_the_file_and_neither_password_nor_hash() -> None:
    state_dir = builders.deployed()
    variables = deploy(state_dir)
    assert variables == {"jupyter": True, "jupyter_state": "present", "jupyter_secret": str(state_dir.notebook)}
    inventory = json.dumps(builders.inventory(builders.cluster(), **variables))
    assert stored_secret(state_dir).password not in inventory
    assert stored_secret(state_dir).hashed not in inventory
    assert json.loads(inventory)["all"]["children"]["jupyter"] == {"hosts": {"demo-head": {}}}


def test_disabled_jupyterlab_is_removed_by_the_next_deploy_only() -> None:
    state_dir = builders.deployed()
    deploy(state_dir)
    with pytest.raises(NodesFailed):
        deploy(state_dir, jupyter=False, fails=True)
    assert deploy(state_dir, jupyter=False)["jupyter_state"] == "absent"
    assert not state_dir.notebook.exists()
    assert deploy(state_dir, jupyter=False) == {}


def test_teardown_deletes_the_password() -> None:
    state_dir = builders.deployed()
    deploy(state_dir)
    state.forget(state_dir)
    assert not state_dir.notebook.exists()


def test_command_without_jupyterlab_names_the_option(cli: Cli) -> None:
    deploy(builders.deployed(), jupyter=False)
    finished = cli("notebook")
    assert (finished.returncode, finished.stdout) == (1, "")
    assert "error: cluster 'default' has no JupyterLab\n`orchestrator deploy --jupyter` starts it" in finished.stderr


def test_silent_jupyterlab_is_given_up(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services_jupyter, "ANSWER_SECONDS", 0.5)
    stand_in("ssh", "echo connect failed: Connection refused >&2; read line")
    deploy(builders.deployed())
    error = CliRunner().invoke(app, ["notebook"]).exception
    assert isinstance(error, NodesFailed)
    assert "demo-head: no answer within 0 s; connect failed: Connection refused" in str(error)
    assert "journalctl --unit notebook" in error.hint


NOTEBOOKS = sorted(DOCUMENTS.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.stem))
def test_notebooks_are_stored_without_output(path: Path) -> None:
    content = json.loads(path.read_text())
    assert (content["nbformat"], content["nbformat_minor"] >= 5) == (4, True)
    assert content["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in content["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in content["cells"]:
        run: dict[str, Any] = {"execution_count": None, "outputs": []} if cell["cell_type"] == "code" else {}
        assert {key: value for key, value in cell.items() if key in ("execution_count", "outputs")} == run
        assert all(line.endswith("\n") for line in cell["source"][:-1])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.stem))
def test_cells_and_written_scripts_of_notebooks_are_python(path: Path) -> None:
    sources = ["".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    scripts = [source.split("\n", 1) for source in sources if source.startswith("%%writefile ")]
    assert [first for first, _ in scripts] == [f"%%writefile {path.stem}.py"]
    for source in [*(script for _, script in scripts), *(s for s in sources if not s.startswith("%%"))]:
        ast.parse(source)


def test_guide_names_every_notebook() -> None:
    assert NOTEBOOKS
    assert [path.name for path in NOTEBOOKS if f"notebooks/{path.name})" not in GUIDE.read_text()] == []
