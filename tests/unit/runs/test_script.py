"""A user's script: the files that are sent, and the command on the nodes."""

import json
import threading
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.runs import script, secret_files, sent_files, source_archive
from orchestrator.runs.script import Source
from tests import waiting
from tests.unit.conftest import Cli

pytestmark = pytest.mark.usefixtures("project")


def gather(config: Path | None = None) -> Source:
    return script.gather(["python", "train.py"], config)


def test_caches_environments_and_history_are_not_sent(project: Path) -> None:
    assert sorted(gather().files) == ["model/net.py", "train.py"]


CREDENTIALS = (
    *("clouds.yaml", "model/secure.yaml", "clouds-public.yml", "demo-openrc-v3.sh", "cluster.yaml", "id_rsa"),
    *("server.pem", "tls.KEY", "bundle.p12", "credentials.json", "application_default_credentials.json", "id_work"),
    *("terraform.tfstate", "terraform.tfstate.backup", "prod.tfvars", "_netrc", "prod.env", "secrets.toml"),
    *("kubeconfig", "kaggle.json"),
)
CONTENTS = {
    "openssh": "# mine\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==\n",
    "rsa": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n",
    "encrypted": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE\n",
    "pgp": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n",
    "putty": "PuTTY-User-Key-File-3: ssh-ed25519\n",
    "google": '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\nMII"}',
    "login": '{"client_id": "x", "client_secret": "y", "refresh_token": "z", "type": "authorized_user"}',
    "openstack": "clouds:\n  site:\n    auth:\n      auth_url: https://x\n      password: y\n",
    "openstack in JSON": '{"clouds": {"site": {"auth": {\n"auth_url": "https://x",\n"password": "y"}}}}\n',
    "openrc": "export OS_USERNAME=me\nexport OS_PASSWORD='hunter2'\n",
    "openrc of an application": "OS_APPLICATION_CREDENTIAL_SECRET=abc\n",
    "aws": "[default]\naws_access_key_id = A\naws_secret_access_key = B\n",
    "aws in a shell": f"#!/bin/sh\nexport AWS_SECRET_ACCESS_KEY={'aB/+' * 10}\n",
    "aws in JSON": f'{{"AccessKeyId": "AKIA", "SecretAccessKey": "{"aB/+" * 10}"}}',
    "kubernetes": "apiVersion: v1\nkind: Config\nusers:\n- user:\n    client-key-data: LS0t\n",
    "state": '{"version": 4, "terraform_version": "1.5", "lineage": "x"}',
}


def test_files_named_like_credentials_are_reported_and_not_sent(project: Path) -> None:
    harmless = ("environment.yaml", "id_rsa.pub", "id_table.csv", "keys.py")
    for name in (*CREDENTIALS, *harmless):
        (project / name).write_text("x\n")
    source = gather()
    assert sorted(source.files) == [*harmless, "model/net.py", "train.py"]
    assert set(source.left_out) == set(CREDENTIALS)


@pytest.mark.parametrize("text", CONTENTS.values(), ids=CONTENTS)
def test_file_with_credentials_is_not_sent_whatever_its_name(project: Path, text: str) -> None:
    (project / "notes.txt").write_text(text)
    assert "notes.txt" not in gather().files
    assert gather().left_out["notes.txt"].startswith("it holds ")


@pytest.mark.parametrize(
    "text",
    [
        'KEY = re.compile(rb"-----BEGIN (?:RSA )?PRIVATE KEY-----")\n',
        "-----BEGIN CERTIFICATE-----\nMIIE\n",
        "-----BEGIN PUBLIC KEY-----\nMIIE\n",
        "lr: 0.1\npassword: none\n",
        's3 = client(\n    "s3",\n    aws_secret_access_key=os.environ["KEY"],\n)\n',
        "read -sr OS_PASSWORD_INPUT\nexport OS_PASSWORD=$OS_PASSWORD_INPUT\n",
        '{"private_key": null}',
    ],
)
def test_file_that_only_mentions_keys_is_sent(project: Path, text: str) -> None:
    (project / "notes.txt").write_text(text)
    assert "notes.txt" in gather().files


def test_files_named_by_environment_or_config_are_not_sent(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine.yaml", "lab.yaml", "key.json", "other.json"):
        (project / name).touch()
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(project / "mine.yaml"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "key.json")
    monkeypatch.setenv("GOOGLE_CREDENTIALS", '{"type": "service_account"}' * 200)  # the content, not a path
    assert sorted(gather(Path("lab.yaml")).files) == ["model/net.py", "other.json", "train.py"]


def test_links_in_the_directory_are_followed_without_circles(project: Path) -> None:
    (project / "again").symlink_to("model")
    (project / "copy.py").symlink_to("train.py")
    (project / "round").symlink_to(project)
    (project / "loop").symlink_to("loop")
    (project / "nothing").symlink_to("gone")
    source = gather()
    assert sorted(source.files) == ["again/net.py", "copy.py", "model/net.py", "train.py"]
    assert source.left_out == {}


def test_links_out_of_the_directory_are_not_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "shared.py").touch()
    (tmp_path / "project-2").write_text("a name that only begins alike")
    (project / "linked").symlink_to(tmp_path / "library")
    (project / "model" / "file.txt").symlink_to("../../library/shared.py")
    (project / "linked-project").symlink_to(tmp_path / "project-2")
    source = gather()
    assert sorted(source.files) == ["model/net.py", "train.py"]
    assert source.left_out["linked"] == f"it is a link out of the directory, to {tmp_path / 'library'}"
    assert sorted(source.left_out) == ["linked", "linked-project", "model/file.txt"]


def test_link_to_an_unsent_file_is_not_sent(project: Path) -> None:
    (project / "key.pem").write_text("x")
    for name, target in {"a.txt": ".env", "b": ".git", "c.txt": "key.pem"}.items():
        (project / name).symlink_to(target)
    assert sorted(gather().left_out) == ["a.txt", "b", "c.txt", "key.pem"]


def test_command_that_names_an_unsent_file_is_refused(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").touch()
    (project / "link.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(ConfigError, match=r"run: link.py: is not sent: it is a link out of the directory, to .*elsew"):
        script.gather(["python", "link.py"])
    (project / "my.key").touch()
    with pytest.raises(ConfigError, match=r"run: \./my.key: is not sent: files of this name contain credentials"):
        script.gather(["python", "train.py", "./my.key"])


@pytest.mark.parametrize("name", [".hidden.py", "old.py"])
def test_script_that_is_not_sent_is_refused_with_the_line_that_sends_it(project: Path, name: str) -> None:
    ignored = project / ".orchestratorignore"
    ignored.write_text("old.py\n")
    (project / name).touch()
    with pytest.raises(
        ConfigError, match=f"run: {name}: is not sent: it is hidden, or in .orchestratorignore"
    ) as caught:
        script.gather(["python", name, "train.py"])
    assert f"`!{name}` in {ignored}" in caught.value.hint
    ignored.write_text(f"old.py\n!{name}\n")
    assert name in script.gather(["python", name]).files


def test_module_may_read_a_file_that_is_not_sent(project: Path) -> None:
    (project / ".hidden.py").touch()
    assert script.gather(["python", "-m", "model.net", ".hidden.py"]).command[-1] == ".hidden.py"


def test_refused_link_out_of_the_directory_names_the_copy(project: Path, tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (project / "data").symlink_to(tmp_path / "big")
    with pytest.raises(ConfigError) as caught:
        script.gather(["python", "train.py", "--data", "data"])
    assert caught.value.hint.startswith(f"`orchestrator cp {tmp_path}/big head:/shared/`")
    assert caught.value.hint.endswith("/shared/big")


def test_orchestratorignore_excludes_files(project: Path) -> None:
    for name in ("data/big.bin", "data/keep.csv", "model/notes.md", "a.log", "deep/b.log"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).touch()
    (project / ".orchestratorignore").write_text("# large\n*.log\n/data/*\n!data/keep.csv\n*.md\n")
    assert sorted(gather().files) == ["data/keep.csv", "model/net.py", "train.py"]
    assert gather().left_out == {}


def test_directories_without_sent_files_are_in_the_copy(project: Path, tmp_path: Path) -> None:
    for name in ("checkpoints", "data/raw", "weights/old", "logs", "wheels", "tmp/__pycache__", "tmp/.cache"):
        (project / name).mkdir(parents=True)
    for name in ("weights/old/a.bin", "logs/.gitkeep", "data/raw/id_rsa", "wheels/six-1-py3-none-any.whl"):
        (project / name).touch()
    (project / "away").symlink_to(tmp_path)
    (project / "scratch").symlink_to(tmp_path)
    (project / "round").symlink_to(project)
    (project / ".orchestratorignore").write_text("weights/\nscratch\n")
    source = script.gather(["python", "train.py"], wheels=project / "wheels")
    assert sorted(source.files) == ["model/net.py", "train.py"]
    assert sorted(source.directories) == ["checkpoints", "data/raw", "logs", "tmp", "weights"]


def test_orchestratorignore_cannot_include_credentials(project: Path) -> None:
    (project / "server.pem").touch()
    (project / ".orchestratorignore").write_text("!server.pem\n")
    assert "server.pem" not in gather().files


def test_orchestratorignore_includes_a_hidden_file_that_it_names_in_full(project: Path) -> None:
    for name in (".project-root", ".other", "model/.mark", ".git/config", ".cache.py"):
        (project / name).touch()
    (project / "link").symlink_to(".project-root")
    lines = ("!.project-root", "!/model/.mark", "!.git", "!.env", "!*.py")
    (project / ".orchestratorignore").write_text("\n".join(lines))
    source = gather()
    assert sorted(source.files) == [".project-root", "link", "model/.mark", "model/net.py", "train.py"]
    assert source.left_out == {".env": "files of this name contain credentials"}


@pytest.mark.parametrize("content", [b"\xff\xfe", b"!\n"])
def test_unreadable_orchestratorignore_is_named(project: Path, content: bytes) -> None:
    (project / ".orchestratorignore").write_bytes(content)
    with pytest.raises(ConfigError, match=r"run: .*\.orchestratorignore"):
        gather()


def test_dry_run_lists_files_and_starts_nothing(project: Path, tmp_path: Path, cli: Cli) -> None:
    (project / "server.pem").touch()
    finished = cli("run", "--dry-run", "--", "python", str(project / "train.py"))
    assert finished.returncode == 0
    assert finished.stderr.startswith("launcher: plain (")
    assert len(finished.stderr.splitlines()) == 1
    assert [line.rstrip() for line in finished.stdout.splitlines()[1:]] == [
        "5      model/net.py",
        "5      train.py",
        "not sent: server.pem: files of this name contain credentials",
        f"2 files, 10 bytes, of {project}",
    ]
    output = json.loads(cli("run", "--dry-run", "--json", "--", "python", str(project / "train.py")).stdout)
    assert output["files"] == [{"name": "model/net.py", "bytes": 5}, {"name": "train.py", "bytes": 5}]
    assert (output["bytes"], output["directory"], list(output["left_out"])) == (10, str(project), ["server.pem"])


def test_dry_run_lists_directories_that_are_created_empty(project: Path, cli: Cli) -> None:
    (project / "data" / "raw").mkdir(parents=True)
    (project / "logs").mkdir()
    command = ("--", "python", str(project / "train.py"))
    lines = cli("run", "--dry-run", *command).stdout.splitlines()
    assert lines[-3:-1] == ["created empty: data/raw/", "created empty: logs/"]
    assert json.loads(cli("run", "--dry-run", "--json", *command).stdout)["empty_directories"] == ["data/raw", "logs"]


def test_file_that_disappears_meanwhile_is_named(project: Path) -> None:
    removed, elsewhere, over = project / "gone", project.parent / "elsewhere", threading.Event()
    elsewhere.write_bytes(bytes(secret_files.SCANNED_BYTES))  # so that reading it takes long

    def come_and_go() -> None:
        while not over.is_set():
            elsewhere.rename(removed)
            removed.rename(elsewhere)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        with pytest.raises(ConfigError, match=f"run: {removed}: No such file"):
            waiting.until(lambda: not gather())  # until it disappears between its listing and its reading
    finally:
        over.set()
        thread.join()


def test_file_that_disappears_before_the_start_is_named(project: Path) -> None:
    source = gather()
    assert source_archive.packed(source)
    (project / "model" / "net.py").unlink()
    for use in (source_archive.packed, str):
        with pytest.raises(ConfigError, match=rf"run: {project}/model/net.py: No such file"):
            use(source)


def test_file_that_disappears_while_it_is_packed_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = gather()
    monkeypatch.setattr(Source, "size", 10)
    (project / "train.py").unlink()
    with pytest.raises(ConfigError, match=rf"run: {project}/train.py: No such file"):
        source_archive.packed(source)


@pytest.mark.parametrize("wheels", ["wheels", "./wheels", "model/wheels"])
def test_directory_of_wheels_is_not_sent(project: Path, wheels: str) -> None:
    (project / wheels).mkdir()
    (project / wheels / "six-1-py3-none-any.whl").touch()
    source = script.gather(["python", "train.py"], wheels=Path(wheels))
    assert sorted(source.files) == ["model/net.py", "train.py"]
    assert source.left_out == {str(Path(wheels)): "it is the directory of --wheels"}


def test_dry_run_names_wheels_and_modules_that_are_not_sent(project: Path, cli: Cli) -> None:
    (project / "wheels").mkdir()
    (project / "wheels" / "six-1-py3-none-any.whl").touch()
    (project / "requirements.txt").write_text("six\n")
    (project / "train.py").write_text("import tools\n")
    (project.parent / "tools.py").touch()
    finished = cli("run", "--dry-run", "--wheels", str(project / "wheels"), "--", "python", str(project / "train.py"))
    assert "not sent: wheels: it is the directory of --wheels" in finished.stdout
    assert "six-1" not in finished.stdout
    assert "--requirements project/requirements.txt -- python -m project.train`" in finished.stderr


def test_dry_run_names_an_argument_that_is_not_sent(project: Path, cli: Cli) -> None:
    (project.parent / "conf.yaml").touch()
    finished = cli("run", "--dry-run", "--", "python", "project/train.py", "--config", "conf.yaml")
    assert finished.returncode == 0
    assert "conf.yaml: found in " in finished.stderr
    assert "`orchestrator run -- python -m project.train`" in finished.stderr


def test_too_large_directory_is_refused_with_the_limit_and_its_largest_parts(project: Path) -> None:
    (project / "wandb" / "run-1").mkdir(parents=True)
    for name, size in (("data", 50 << 20), ("wandb/run-1/media", 150 << 20)):
        with (project / name).open("wb") as file:
            file.truncate(size + 1)  # a sparse file
    largest = r"wandb \(150 MiB\), data \(50 MiB\), model \(0 MiB\)"
    with pytest.raises(ConfigError, match=rf"more than 200 MiB, .* in {largest}: .* \.orchestratorignore"):
        gather()


@pytest.mark.parametrize("levels", [sent_files.DEEPEST, sent_files.DEEPEST + 1])
def test_directory_nested_too_deep_is_named(project: Path, levels: int) -> None:
    (project / "deep" / "/".join("d" * (levels - 1))).mkdir(parents=True)
    if levels == sent_files.DEEPEST:
        assert len(gather().directories) == 1
        return
    with pytest.raises(ConfigError, match=rf"run: {project}/deep: .* more than 200 levels .* \.orchestratorignore"):
        gather()
