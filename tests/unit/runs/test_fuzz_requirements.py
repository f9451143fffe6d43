"""Any text in a requirements file or pyproject.toml gives requirements, or an error with the file or line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ConfigError
from orchestrator.runs import requirements
from orchestrator.trainer.packages import conflicts_with_image
from tests.stand_ins import fuzz

WORDS = st.sampled_from(
    ["-r", "-c ", "-e", "--requirement=", "six", "[a]", "==1", ";", "@ ", "file:", "./", ".", "\\\n", "#", "--hash=x:1",
     "[project]", "[build-system]", "${HOME}", "\r", " ", "\n", "https://x/", ".whl", "\0", "'", "é"]
)  # fmt: skip
TEXT = st.lists(WORDS, max_size=20).map("".join) | st.text(max_size=60)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("project") / "nested"
    directory.mkdir()
    (directory / "train.py").touch()
    return directory


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
@given(text=TEXT)
def test_any_text_is_requirements_or_refused(project: Path, name: str, text: str) -> None:
    path = project / name
    path.write_bytes(text.encode(errors="replace"))
    try:
        with fuzz.refused(ConfigError, "run: "):
            requested = requirements.find(["python", str(project / "train.py")], path)
            assert requested is not None
            assert all("\0" not in line for several in requested.sent_to("/there") for line in several)
            assert len(requested.digest("image")) == 12
            conflicts_with_image.conflicts(
                requested.lines, conflicts_with_image.Protected({"six": "1"}, {}, {"six": "six"}, {})
            )
    finally:
        path.unlink()
