"""Images made where they are not there, in front of a stand-in for the engine."""

import json
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zstandard

from orchestrator.config import Framework
from orchestrator.docker import build, context
from orchestrator.docker.context import Variant
from orchestrator.docker.engine import Engine
from orchestrator.errors import CommandFailed, PreflightError
from tests.stand_ins import docker_stand_in
from tests.stand_ins.docker_stand_in import Answers

BASE = "debian:12-slim"
Ensure = Callable[..., str]


@pytest.fixture
def ensure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Ensure]:
    """Ensures the node image at an engine with these answers, by default without any image; hides mmdebstrap."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with ExitStack() as stack:

        def at_engine(answers: Answers, variant: Variant = Variant(BASE)) -> str:
            monkeypatch.setenv("DOCKER_HOST", stack.enter_context(docker_stand_in.listening(answers)))
            return build.ensure(Engine(), "node", variant, tmp_path / "log")

        yield at_engine


def listing(tag: str) -> Answers:
    """An engine that has one image."""
    return {f"/images/{tag}/json": (200, [{"Id": "sha256:1", "RepoTags": [tag]}])}


def building(*messages: dict[str, Any]) -> Answers:
    """An engine whose registry has the base image, and whose builds say this."""
    pulled = {"Id": "sha256:1", "RepoTags": [BASE]}
    return {
        "/images/create": (200, [{"status": "Pulling"}]),
        f"/images/{BASE}/json": (200, [pulled]),
        "/build": (200, list(messages)),
    }


def test_an_image_that_is_there_is_not_built_again(ensure: Ensure, tmp_path: Path) -> None:
    tag = context.tag("node", Variant(BASE))
    assert ensure(listing(tag)) == tag
    assert not (tmp_path / "log").exists()


def test_a_base_image_that_no_registry_has_needs_mmdebstrap(ensure: Ensure) -> None:
    with pytest.raises(PreflightError, match=f"no registry answers for {BASE}, and mmdebstrap.* is not") as caught:
        ensure({})
    assert "apt-get install mmdebstrap" in caught.value.hint


def test_only_debian_12_can_be_made_where_no_registry_has_the_base_image(ensure: Ensure) -> None:
    with pytest.raises(PreflightError, match="no registry has fedora:40"):
        ensure({}, Variant("fedora:40"))


def test_an_image_of_the_users_own_that_is_nowhere_is_named(ensure: Ensure) -> None:
    with pytest.raises(PreflightError, match="image: this Docker Engine has no my/trainer:2, and no registry has it"):
        ensure({}, Variant(BASE, own="my/trainer:2"))


@pytest.mark.parametrize(
    ("framework", "accelerator", "needed"),
    [
        ("tensorflow", "cpu", 8),
        ("tensorflow", "gpu", 24),
        ("pytorch", "cpu", 14),
        ("pytorch", "gpu", 24),
        ("both", "cpu", 18),
    ],
)
def test_too_little_space_is_found_before_the_build(
    ensure: Ensure, framework: Framework, accelerator: str, needed: int
) -> None:
    info = {"NCPU": 1, "MemTotal": 1, "DockerRootDir": "/proc"}  # a file system that never has any space
    with pytest.raises(PreflightError, match=rf"0\.0 GiB free, the images need {needed}") as caught:
        ensure({"/info": (200, [info])}, Variant(BASE, framework, accelerator))
    assert "docker system prune" in caught.value.hint


def test_a_build_keeps_its_lines_in_the_log_without_colours(ensure: Ensure, tmp_path: Path) -> None:
    coloured = {"stream": "\x1b[32mdone\x1b[0m\n"}
    assert ensure(building({"stream": "Step 1/2 : FROM debian\n"}, {"aux": {"ID": "x"}}, coloured)) == context.tag(
        "node", Variant(BASE)
    )
    assert (tmp_path / "log").read_text() == "Step 1/2 : FROM debian\ndone\n"


def test_a_build_that_fails_shows_its_last_lines(ensure: Ensure, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as caught:
        ensure(building({"stream": "E: no such package\n"}, {"error": "a non-zero code: 100"}))
    assert caught.value.tail == ["E: no such package", "a non-zero code: 100"]
    assert str(tmp_path / "log") in caught.value.hint


def test_a_build_that_fills_the_disk_is_told_from_one_that_fails(ensure: Ensure) -> None:
    said = [{"stream": "tar: write error: No space left on device\n"}, {"error": "a non-zero code: 2"}]
    with pytest.raises(PreflightError, match="is full") as caught:
        ensure(building(*said))
    assert "docker system df" in caught.value.hint


def test_an_engine_that_goes_away_during_a_build_is_an_error_with_the_log(ensure: Ensure, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="build an image") as caught:
        ensure(building({"stream": "Step 1/2 : FROM debian\n"}, docker_stand_in.BREAKS_OFF))
    assert caught.value.hint == f"whole log: {tmp_path / 'log'}"
    assert (tmp_path / "log").read_text() == "Step 1/2 : FROM debian\n"


def test_certificates_that_are_missing_are_said_before_anything_is_pulled(
    ensure: Ensure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/company.pem")
    with pytest.raises(PreflightError, match="SSL_CERT_FILE: /no/such/company"):
        ensure({})


TAG = "orchestrator-trainer:0123456789ab"
Saving = Callable[..., Engine]


@pytest.fixture
def saving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Saving]:
    """An engine that exports an image as these JSON documents."""
    with ExitStack() as stack:

        def at_engine(*documents: Any) -> Engine:
            answers: Answers = {
                "/containers/create": (201, [{"Id": "made"}]) if documents else (404, [{"message": "No such image"}]),
                "/containers/made/export": (200, list(documents)),
                f"/containers/orchestrator-export-{TAG.partition(':')[2]}/json": (404, [{"message": "none"}]),
            }
            monkeypatch.setenv("DOCKER_HOST", stack.enter_context(docker_stand_in.listening(answers)))
            return Engine()

        yield at_engine


def test_an_archive_holds_the_whole_image_compressed_and_for_its_owner_alone(saving: Saving, tmp_path: Path) -> None:
    documents = [f"{number}" * 1000 for number in range(200)]
    path, counts = tmp_path / "new" / "trainer.tar.zst", list[int]()
    build.archive(saving(*documents), TAG, path, counts.append)
    content = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    assert content.decode() == "".join(json.dumps(document) for document in documents)
    assert counts == sorted(counts)
    assert counts[-1] == len(content)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_an_archive_that_is_there_is_not_made_again(saving: Saving, tmp_path: Path) -> None:
    path = tmp_path / "trainer.tar.zst"
    path.write_text("there")
    build.archive(saving(), TAG, path)
    assert path.read_text() == "there"


def test_an_image_that_breaks_off_leaves_no_archive(saving: Saving, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="export an image"):
        build.archive(saving("half", docker_stand_in.BREAKS_OFF), TAG, tmp_path / "archives" / "trainer.tar.zst")
    assert list((tmp_path / "archives").iterdir()) == []


def test_an_image_that_the_engine_does_not_have_is_named(saving: Saving, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=f"docker create {TAG}.*No such image"):
        build.archive(saving(), TAG, tmp_path / "trainer.tar.zst")


def test_an_archive_that_cannot_be_written_is_said_with_its_place(saving: Saving, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PreflightError, match="file") as caught:
        build.archive(saving("whole"), TAG, tmp_path / "file" / "trainer.tar.zst")
    assert caught.value.hint == f"free space in {tmp_path}/file"
