"""Downloads from a real web server on loopback."""

import errno
import hashlib
import http.server
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator import recipes, state
from orchestrator.errors import ConfigError, PreflightError
from orchestrator.runs import dataset_downloads
from orchestrator.runs.datasets import FoundDataset

CONTENT = {"images": b"pixels" * 1000, "labels": b"digits"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serve files; "/cut" announces a chunk and closes the connection in the middle of it, like a failing proxy."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path != "/cut":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"64\r\nonly a part")
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """Yield the address of a web server with the files of CONTENT."""
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def entry(site: str) -> Iterator[dict[str, Any]]:
    """Yield a temporary data set "tiny", published at that server."""
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    described = recipes.datasets()["tiny"] = {
        "site": site,
        "files": checksums,
        "bytes": sum(map(len, CONTENT.values())),
    }
    yield described
    del recipes.datasets()["tiny"]


def download() -> Path:
    return dataset_downloads.download("tiny", lambda text: None)


def cached() -> list[str]:
    return sorted(path.name for path in (state.cache() / "datasets" / "tiny").iterdir())


def test_published_files_are_downloaded_into_the_cache(entry: dict[str, Any]) -> None:
    lines: list[str] = []
    directory = dataset_downloads.download("tiny", lines.append)
    assert directory == state.cache() / "datasets" / "tiny"
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == CONTENT
    assert lines == ["downloading images", "downloading labels"]


def test_cache_may_be_on_a_file_system_without_hard_links(
    entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", refuse)
    download()
    assert cached() == ["images", "labels"]


def test_cached_files_are_not_downloaded_again(entry: dict[str, Any]) -> None:
    download()
    entry["site"] = "http://127.0.0.1:1"  # no server listens there
    assert cached() == ["images", "labels"]
    assert download() == state.cache() / "datasets" / "tiny"


def test_files_downloaded_again_are_the_same_data_set(entry: dict[str, Any]) -> None:
    """Their times are part of the name on the nodes, by which `train --resume` finds the data of a run."""

    def remote() -> str:
        return FoundDataset("tiny", download(), sorted(CONTENT), train=1, test=1, note="").remote

    before = remote()
    shutil.rmtree(state.cache())
    assert remote() == before


def test_file_with_another_checksum_is_refused_and_deleted(entry: dict[str, Any]) -> None:
    entry["files"]["labels"] = "0" * 64
    with pytest.raises(PreflightError, match=r"/labels has SHA-256 .*, expected 0000") as caught:
        download()
    assert cached() == ["images"]
    assert "--data DIR" in caught.value.hint


def test_file_missing_on_the_site_is_named(entry: dict[str, Any]) -> None:
    entry["files"]["missing"] = "0" * 64
    with pytest.raises(PreflightError, match="/missing cannot be downloaded: File not found"):
        download()


def test_unreachable_site_is_named_with_the_manual_way(entry: dict[str, Any]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        entry["site"] = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(PreflightError, match=r"cannot be downloaded.*refused") as caught:
        download()
    assert (caught.value.exit_code, "--data DIR" in caught.value.hint) == (2, True)


def test_broken_connection_is_an_error_and_no_bug(entry: dict[str, Any]) -> None:
    entry["files"]["cut"] = "0" * 64
    with pytest.raises(PreflightError, match="/cut cannot be downloaded"):
        download()


def test_interrupted_download_starts_over(entry: dict[str, Any]) -> None:
    directory = state.cache() / "datasets" / "tiny"
    directory.mkdir(parents=True)
    (directory / ".images.half").write_bytes(b"half of it")
    os.utime(directory / ".images.half", (0, 0))
    download()
    assert cached() == ["images", "labels"]


def test_imagenet_is_not_downloadable_and_must_be_named() -> None:
    with pytest.raises(ConfigError, match="imagenet cannot be downloaded without an account"):
        dataset_downloads.download("imagenet", lambda text: None)


def test_downloadable_data_sets_have_checksums_of_all_files() -> None:
    downloadable = [dataset for dataset in recipes.datasets().values() if "site" in dataset]
    checksums = [checksum for dataset in downloadable for checksum in dataset["files"].values()]
    assert len(checksums) == 9
    assert all(len(bytes.fromhex(checksum)) == 32 for checksum in checksums)


def test_packaged_test_set_has_the_published_checksums() -> None:
    published = recipes.datasets()["mnist"]["files"]
    carried = Path(__file__).parents[2] / "data" / "mnist"
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in carried.glob("*.gz")}
    assert len(digests) == 2
    assert digests.items() <= published.items()


def test_endless_file_is_refused(entry: dict[str, Any]) -> None:
    entry["bytes"] = 5000
    with pytest.raises(PreflightError, match=r"/images cannot be downloaded: it has more than 5,000 bytes"):
        download()
