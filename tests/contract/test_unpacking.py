"""The trainer's image on a machine: the role's script unpacks a parcel into this machine's Docker Engine."""

import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from orchestrator import packaged_files
from orchestrator.docker import images
from orchestrator.docker.engine import Engine
from orchestrator.providers import trainer_image
from tests.contract.conftest import ProgramResult
from tests.contract.test_ansible import Ansible

PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  vars_files: [{defaults}]
  tasks:
    - ansible.builtin.shell: "PATH={tools}:$PATH; {{{{ trainer_container_unpack }}}}"
      args: {{executable: /bin/bash}}
"""
# Keep the images of other tests and of this machine's own clusters.
REMOVAL = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.include_tasks: {tasks}
      vars:
        trainer_container_root: {root}
        trainer_container_used_images: "{{{{ trainer_container_images.stdout_lines | reject('search', ':{tag}$') }}}}"
"""
# Nodes install this program from their distribution; this substitute decompresses on machines without it.
ZSTD = f"""#!{sys.executable}
import sys, zstandard
with open(sys.argv[-1], "rb") as parcel:
    zstandard.ZstdDecompressor().copy_stream(parcel, sys.stdout.buffer)
"""
ROLE = packaged_files.directory("ansible") / "roles/trainer_container"
FILES = {"usr/bin/rank": b"rank", "opt/orchestrator/digest": b"digest", "etc/os-release": b"release"}


class Machine:
    """A machine with Docker that unpacks a parcel by the role's script into a directory of the test."""

    def __init__(self, ansible: Ansible, engine: Engine, directory: Path) -> None:
        self.ansible, self.engine, self.directory = ansible, engine, directory
        self.tag = directory.name.replace("_", "-")
        self.image, self.built_image = f"{trainer_image.UNPACKED}:{self.tag}", f"orchestrator-trainer:{self.tag}"
        self.files = directory / "trainer" / self.tag

    def unpack(self, parcel: Path) -> ProgramResult:
        (self.directory / "zstd").write_text(ZSTD)
        (self.directory / "zstd").chmod(0o755)
        playbook = self.directory / "site.yml"
        playbook.write_text(PLAYBOOK.format(defaults=ROLE / "defaults/main.yml", tools=self.directory))
        variables = {
            "trainer_image": self.image,
            "trainer_shared_archive": parcel,
            "trainer_container_lock": self.directory / "lock",
            "trainer_container_root": self.directory / "trainer",
        }
        words = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
        return self.ansible("ansible-playbook", *words, str(playbook))

    def remove_images(self) -> ProgramResult:
        playbook, tasks = self.directory / "remove.yml", ROLE / "tasks/remove_unused_images.yml"
        playbook.write_text(REMOVAL.format(tasks=tasks, root=self.directory / "trainer", tag=self.tag))
        return self.ansible("ansible-playbook", str(playbook))

    def images(self) -> list[str]:
        return [tag for image in self.engine.client.images.list() for tag in image.tags]

    def names_in_image(self) -> set[str]:
        with tarfile.open(fileobj=io.BytesIO(b"".join(images.export(self.engine, self.image)))) as archive:
            return set(archive.getnames())


@pytest.fixture
def machine(ansible: Ansible, docker_engine: Engine, tmp_path: Path) -> Iterator[Machine]:
    unpacker = Machine(ansible, docker_engine, tmp_path)
    yield unpacker
    for image in {unpacker.image, unpacker.built_image} & set(unpacker.images()):
        docker_engine.client.images.remove(image)


def archive_of_files() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


def parcel(path: Path, cut: int | None = None) -> Path:
    path.write_bytes(zstandard.compress(archive_of_files())[:cut])
    return path


def test_image_has_the_rest_and_the_directory_usr_and_opt(machine: Machine, tmp_path: Path) -> None:
    result = machine.unpack(parcel(tmp_path / "parcel.tar.zst"))
    assert result.code == 0, result.text
    assert {name: (machine.files / name).read_bytes() for name in FILES} == FILES
    names = machine.names_in_image()
    assert "etc/os-release" in names
    assert not {"usr/bin/rank", "opt/orchestrator/digest"} & names


def test_second_unpacking_does_nothing(machine: Machine, tmp_path: Path) -> None:
    assert machine.unpack(parcel(tmp_path / "parcel.tar.zst")).code == 0
    (machine.files / "mark").touch()
    assert machine.unpack(tmp_path / "missing").code == 0
    assert (machine.files / "mark").exists()


def test_image_built_on_the_node_is_neither_used_nor_removed(machine: Machine, tmp_path: Path) -> None:
    images.load_root_filesystem(machine.engine, io.BytesIO(archive_of_files()), machine.built_image)
    built = images.find(machine.engine, machine.built_image)
    assert machine.unpack(parcel(tmp_path / "parcel.tar.zst")).code == 0
    assert {name: (machine.files / name).read_bytes() for name in FILES} == FILES
    assert images.find(machine.engine, machine.built_image) == built
    result = machine.remove_images()
    assert result.code == 0, result.text
    assert machine.image not in machine.images()
    assert images.find(machine.engine, machine.built_image) == built
    assert not machine.files.exists()


@pytest.mark.parametrize("cut", [None, 40])
def test_unreadable_parcel_leaves_no_image_and_no_files(machine: Machine, tmp_path: Path, cut: int | None) -> None:
    path = parcel(tmp_path / "parcel.tar.zst", cut) if cut else tmp_path / "missing"
    assert machine.unpack(path).code != 0
    assert machine.image not in machine.images()
    assert f"{trainer_image.UNPACKED}:unfinished" not in machine.images()
    assert list((tmp_path / "trainer").iterdir()) == []
    assert (tmp_path / "lock").exists()
