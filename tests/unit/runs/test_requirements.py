"""Packages that a script needs: the file, its lines, and changes of them."""

import json
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.runs import requirements
from orchestrator.runs.requirements import Requirements
from orchestrator.runs.requirements_file import logical_lines
from tests.unit.conftest import Cli

ARGV = ["python", "train.py"]
BUILT = '[build-system]\nrequires = ["setuptools"]\n[project]\nname = "mine"\n'
IMAGE = "0123456789ab"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    (root / "src" / "mine").mkdir(parents=True)
    (root / "src" / "mine" / "__init__.py").write_text("NUMBER = 1\n")
    (root / "train.py").touch()
    monkeypatch.chdir(root)
    return root


def find_requirements(file: Path | None = None, wheels: Path | None = None) -> Requirements:
    result = requirements.find(ARGV, file, wheels)
    assert result is not None
    return result


def test_script_without_such_files_needs_no_packages() -> None:
    assert requirements.find(ARGV) is None


def test_lines_are_read_like_pip() -> None:
    text = "# all\n\nnumpy>=1 # new\r\ntorch \\\n  ==2.1\n  pandas ; python_version > '3'\na@https://x/#egg=a\n"
    expected = ["numpy>=1", "torch   ==2.1", "pandas ; python_version > '3'", "a@https://x/#egg=a"]
    assert list(logical_lines(text)) == expected


def test_comment_does_not_continue_at_a_backslash() -> None:
    assert list(logical_lines("  # from C:\\wheels\\\nnumpy\ntorch \\\n# old \\\n==2.1\n")) == [
        "numpy",
        "torch",
        "==2.1",
    ]


def test_requirements_txt_is_read_with_included_files(project: Path) -> None:
    (project / "requirements.txt").write_text("-r more/base.txt\n-c limits.txt\nemoji\n--pre\n--index-url https://x\n")
    (project / "more").mkdir()
    (project / "more" / "base.txt").write_text("numpy\n--requirement=../requirements.txt\n")  # the circle ends
    (project / "limits.txt").write_text("six<2\n")
    requested = find_requirements()
    assert (requested.source, requested.requested) == ("requirements.txt", ["numpy", "emoji"])
    assert requested.lines == ["numpy", "emoji", "--pre", "--index-url https://x"]
    assert requested.constraints == ["six<2"]


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        ("-e .", "\0local/1"),
        (".", "\0local/1"),
        ("--editable ./", "\0local/1"),
        (".[dev,gpu]", "\0local/1[dev,gpu]"),
        ("../project ; python_version > '3'", "\0local/1 ; python_version > '3'"),
        ("./ --config-settings=a=/b", "\0local/1 --config-settings=a=/b"),
        (
            ".[dev] ; python_version > '3' --config-settings=a",
            "\0local/1[dev] ; python_version > '3' --config-settings=a",
        ),
    ],
)
def test_local_package_is_sent_with_its_files(project: Path, line: str, sent: str) -> None:
    (project / "pyproject.toml").write_text(BUILT)
    (project / "secret.pem").write_text("x")
    (project / "requirements.txt").write_text(f"{line}\n")
    requested = find_requirements()
    assert requested.lines == [sent]
    assert requested.requested == [line.partition(" --config")[0]]
    names = ["pyproject.toml", "requirements.txt", "src/mine/__init__.py", "train.py"]
    assert sorted(requested.files) == [f"local/1/{name}" for name in names]
    assert requested.sent_to("/there")[0] == [sent.replace("\0", "/there/")]


def test_local_wheel_is_sent(project: Path) -> None:
    (project / "mine-1-py3-none-any.whl").touch()
    (project / "requirements.txt").write_text("./mine-1-py3-none-any.whl\n")
    assert find_requirements().lines == ["\0local/1/mine-1-py3-none-any.whl"]
    assert list(find_requirements().files) == ["local/1/mine-1-py3-none-any.whl"]


@pytest.mark.parametrize(
    "line",
    [
        *("numpy", "mine @ https://x/mine.whl", "git+https://x/mine.git", "a[b]>=1; c"),
        *("mine@https://x/mine.whl", "mine[a, b] @ https://x/mine.whl", "mine @ ${URL}/mine.whl", "mine@${URL}/x.whl"),
        *('mine==1 --config-settings="f=-I/usr/include"', "mine==1 --config-settings=x=file:y"),
    ],
)
def test_line_that_is_no_path_is_not_sent(project: Path, line: str) -> None:
    (project / "requirements.txt").write_text(f"{line}\n")
    assert (find_requirements().lines, find_requirements().files) == ([line], {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"./nothing\n", "./nothing: no Python package is there"),
        (b"-e src\n", "src: no Python package is there"),
        (b"-r gone.txt\n", "gone.txt: no such file"),
        (b"mine @ file:///tmp/mine\n", "is the URL of a file"),
        (b"\xff\xfe", "not UTF-8"),
        (b"numpy\0\n", "is not text"),
        (b"./" + b"x" * 300, "no Python package is there"),
        (b"~0/mine\n", "requirements.txt: ~0/mine: no user '0'"),
    ],
)
def test_unreadable_or_unsendable_line_is_refused(project: Path, text: bytes, problem: str) -> None:
    (project / "requirements.txt").write_bytes(text)
    with pytest.raises(ConfigError, match=problem):
        find_requirements()


def test_pyproject_with_a_build_system_is_a_local_package(project: Path) -> None:
    (project / "pyproject.toml").write_text(BUILT)
    assert (find_requirements().lines, find_requirements().pyproject) == (["\0local/1"], None)


def test_pyproject_without_a_build_system_gives_dependencies(project: Path) -> None:
    (project / "pyproject.toml").write_text('[project]\ndependencies = ["emoji"]\n')
    assert (find_requirements().lines, find_requirements().files) == ([], {})
    assert find_requirements().pyproject == '[project]\ndependencies = ["emoji"]\n'


def test_pyproject_with_only_tools_needs_no_packages(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.ruff]\nline-length = 1\n")
    assert requirements.find(ARGV) is None


@pytest.mark.parametrize("key", ["[tool.poetry]\npackage-mode = false", "[tool.uv]\npackage = false"])
def test_pyproject_of_a_project_that_is_no_package_gives_dependencies(project: Path, key: str) -> None:
    (project / "pyproject.toml").write_text(f"{BUILT}{key}\n")
    assert find_requirements().pyproject == f"{BUILT}{key}\n"
    (project / "pyproject.toml").write_text(f'[build-system]\nrequires = ["poetry-core"]\n{key}\n')
    assert requirements.find(ARGV) is None


def test_paths_of_conda_are_refused_with_the_command_for_versions(project: Path) -> None:
    (project / "requirements.txt").write_text("certifi @ file:///croot/certifi_167/work/certifi\n")
    with pytest.raises(ConfigError) as caught:
        find_requirements()
    assert "`pip list --format=freeze > requirements.txt`" in caught.value.hint


def test_named_file_precedes_requirements_txt_and_pyproject(project: Path) -> None:
    (project / "pyproject.toml").write_text(BUILT)
    (project / "requirements.txt").write_text("emoji\n")
    (project / "other.txt").write_text("six\n")
    assert find_requirements().lines == ["emoji"]
    assert find_requirements(Path("other.txt")).lines == ["six"]


def test_wheels_are_sent_and_no_index_is_used(project: Path, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "six-1-py3-none-any.whl").touch()
    (tmp_path / "wheels" / "six-1.tar.gz").touch()
    (project / "requirements.txt").write_text("-i https://x\nsix\n--find-links https://y\n-f z\n")
    requested = find_requirements(wheels=tmp_path / "wheels")
    assert (requested.lines, list(requested.files), requested.wheels) == (
        ["six"],
        ["wheels/six-1-py3-none-any.whl"],
        True,
    )


def test_wheels_within_a_local_package_are_sent_once(project: Path) -> None:
    (project / "wheels").mkdir()
    (project / "wheels" / "six-1-py3-none-any.whl").touch()
    (project / "pyproject.toml").write_text(BUILT)
    sent = [name for name in find_requirements(wheels=project / "wheels").files if "six" in name]
    assert sent == ["wheels/six-1-py3-none-any.whl"]


def test_unused_or_missing_wheels_are_refused(project: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no requirements.txt or pyproject.toml is in"):
        find_requirements(wheels=tmp_path)
    (project / "requirements.txt").write_text("six\n")
    with pytest.raises(ConfigError, match="no wheel is there"):
        find_requirements(wheels=tmp_path)


def test_digest_changes_with_every_input_of_the_installation(project: Path) -> None:
    (project / "pyproject.toml").write_text(BUILT)
    (project / "requirements.txt").write_text("-e .\nsix\n")
    digests = [find_requirements().digest(IMAGE), find_requirements().digest("another image")]
    (project / "src" / "mine" / "__init__.py").write_text("NUMBER = 2\n")
    digests.append(find_requirements().digest(IMAGE))
    (project / "requirements.txt").write_text("-e .\nsix<2\n")
    digests.append(find_requirements().digest(IMAGE))
    assert len(set(digests)) == len(digests)


def test_digest_ignores_comments_order_and_the_script(project: Path) -> None:
    (project / "pyproject.toml").write_text(BUILT)
    (project / "reqs.txt").write_text("-e .\nsix\n")
    (project / "other.txt").write_text("# the same\nsix\n-e .\n")
    reader = [find_requirements(Path("reqs.txt")).digest(IMAGE), find_requirements(Path("other.txt")).digest(IMAGE)]
    (project / "train.py").write_text("print('edited')\n")
    assert {*reader, find_requirements(Path("reqs.txt")).digest(IMAGE)} == {reader[0]}


def test_base_digest_follows_metadata_of_local_packages_only(project: Path) -> None:
    (project / "pyproject.toml").write_text(BUILT)
    before = find_requirements()
    base = before.base(IMAGE)
    (project / "src" / "mine" / "__init__.py").write_text("NUMBER = 2\n")
    assert find_requirements().base(IMAGE) == base
    (project / "pyproject.toml").write_text(f"{BUILT}version = '2'\n")
    assert len({base, find_requirements().base(IMAGE), find_requirements().base("another image")}) == 3


@pytest.mark.parametrize("password", ["secret", "sec@ret"])
def test_passwords_in_urls_are_not_shown(project: Path, password: str) -> None:
    address = f"https://user:{password}@x"
    (project / "requirements.txt").write_text(f"mine @ {address}/mine.whl\n-i {address}\n")
    assert find_requirements().requested == ["mine @ https://****@x/mine.whl"]
    assert find_requirements().lines[0] == f"mine @ {address}/mine.whl"


def test_hashes_stay_with_their_line_and_are_not_shown(project: Path) -> None:
    (project / "requirements.txt").write_text("six==1 \\\n    --hash=sha256:00\n")
    assert (find_requirements().requested, find_requirements().lines) == (["six==1"], ["six==1     --hash=sha256:00"])


def test_variables_are_expanded_only_for_the_head(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "requirements.txt").write_text("--extra-index-url https://${TOKEN}@x/${UNSET}\nsix\n")
    monkeypatch.setenv("TOKEN", "secret")
    monkeypatch.delenv("UNSET", raising=False)
    before = find_requirements()
    assert before.sent_to("/there")[0] == ["--extra-index-url https://secret@x/${UNSET}", "six"]
    assert "secret" not in f"{before.lines}{before.requested}"
    monkeypatch.setenv("TOKEN", "another")
    assert find_requirements().digest(IMAGE) == before.digest(IMAGE)


def test_dry_run_lists_packages_to_install(project: Path, cli: Cli) -> None:
    (project / "requirements.txt").write_text("six\nemoji==2\n")
    script = str(project / "train.py")
    assert cli("run", "--dry-run", "--", "python", script).stdout.splitlines()[-2:] == [
        "to install, by requirements.txt: six",
        "to install, by requirements.txt: emoji==2",
    ]
    output = json.loads(cli("run", "--dry-run", "--json", "--", "python", script).stdout)
    assert output["packages"] == {"source": "requirements.txt", "asked": ["six", "emoji==2"]}
    without = cli("run", "--dry-run", "--no-packages", "--json", "--", "python", script)
    assert json.loads(without.stdout)["packages"] is None


@pytest.mark.parametrize("line", ["./id_ed25519", "-r settings.env", "-c link", "./key.whl"])
def test_files_with_credentials_are_not_sent(project: Path, line: str) -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    for name in ("id_ed25519", "settings.env", "key.whl"):
        (project / name).write_text(key)
    (project / "link").symlink_to("settings.env")
    (project / "requirements.txt").write_text(f"{line}\n")
    with pytest.raises(ConfigError, match=r"is not sent: .*credentials|is not sent: it holds a private key"):
        find_requirements()


def test_variables_whose_values_pip_gets_are_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "x")
    monkeypatch.delenv("NOT_SET", raising=False)
    (project / "requirements.txt").write_text(
        "--index-url https://${TOKEN}@example.org/\nmine @ https://${NOT_SET}/x\n"
    )
    assert find_requirements().variables == ["TOKEN"]


@pytest.mark.parametrize("name", ["OS_PASSWORD", "AWS_SECRET_ACCESS_KEY", "GOOGLE_CREDENTIALS", "TF_TOKEN_example_org"])
@pytest.mark.parametrize("as_constraint", [False, True])
def test_credential_of_a_cloud_is_not_sent_to_pip(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, as_constraint: bool
) -> None:
    """Another person may have written the file, and the address."""
    monkeypatch.setenv(name.upper(), "cloud-secret")
    file = project / ("limits.txt" if as_constraint else "requirements.txt")
    (project / "requirements.txt").write_text("-c limits.txt\n")
    file.write_text(f"mine @ https://example.org/${{{name.upper()}}}/x.tar.gz\n")
    with pytest.raises(ConfigError, match=f"requirements.txt: asks for the value of {name.upper()}") as caught:
        find_requirements()
    assert "cloud-secret" not in str(caught.value)


def test_credential_of_a_cloud_that_is_not_set_is_no_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OS_PASSWORD", raising=False)
    (project / "requirements.txt").write_text("mine @ https://example.org/${OS_PASSWORD}/x.tar.gz\n")
    assert find_requirements().variables == []
