"""Any file of variables gives settings, or one error with the file's name and none of its text."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ConfigError
from orchestrator.runs import user_variables
from tests.stand_ins import fuzz

VALUE = "s3cret_of_the_user"
GOOD = f"""# comment\nexport A="{VALUE}\\n" # c\nB='{VALUE}'\n\nC={VALUE}\n""".encode()
LINES = st.lists(st.text("AB_1=#'\"\\ $\t\r\0xporte", max_size=30), max_size=8).map("\n".join)


@given(content=fuzz.damaged(GOOD) | LINES.map(lambda text: text.encode()))
def test_damaged_file_of_variables_is_refused_without_its_text(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "settings").write_bytes(content)
    with fuzz.refused(ConfigError, name="settings", never=VALUE):
        values = user_variables.read([], [tmp_path / "settings"]).values
        assert all(user_variables.NAME.fullmatch(name) and "\0" not in value for name, value in values.items())
