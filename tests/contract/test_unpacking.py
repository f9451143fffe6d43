"""The trainer's image on a machine: what the role's own script makes of a parcel, in this machine's Docker Engine."""

from pathlib import Path

from orchestrator import assets
from orchestrator.engine import Engine
from tests.contract.test_ansible import Ansible

PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  vars_files: [{defaults}]
  tasks:
    - ansible.builtin.shell: "{{{{ trainer_container_unpack }}}}"
      args: {{executable: /bin/bash}}
"""


def test_a_parcel_that_cannot_be_read_leaves_no_image_that_passes_for_the_trainer(
    ansible: Ansible, docker_engine: Engine, tmp_path: Path
) -> None:
    playbook, image = tmp_path / "site.yml", f"orchestrator-trainer:{tmp_path.name.replace('_', '-')}"
    playbook.write_text(
        PLAYBOOK.format(defaults=assets.directory("ansible") / "roles/trainer_container/defaults/main.yml")
    )
    given = {
        "trainer_image": image,
        "trainer_parcel": tmp_path / "missing",
        "trainer_container_lock": tmp_path / "lock",
    }
    words = [word for name, value in given.items() for word in ("-e", f"{name}={value}")]
    assert ansible("ansible-playbook", *words, str(playbook)).code != 0
    left = [tag for one in docker_engine.client.images.list("orchestrator-trainer") for tag in one.tags]
    assert image not in left
    assert "orchestrator-trainer:unfinished" not in left
    assert (tmp_path / "lock").exists()
