"""Bad cluster.yaml, recipes and files that they name, through the command itself: one error with file and key."""

from pathlib import Path

import pytest

from orchestrator.schema.bounded_files import shown
from tests import builders
from tests.stand_ins.hostile import assert_refused
from tests.unit.conftest import Cli

NUMBERS = ("nodes", "min_nodes", "slots", "local.cpus", "train.max_time", "allow_from", "openstack.gpus")
NO_NUMBERS = (*("2026-13-45", "!!int abc", "!!float abc", "!!timestamp abc"), "!!bool abc", "9" * 5000, ".nan", "'\\0'")
ANY = ("nodes", "name", "provider", "prices", "local", "train", "monitoring.receivers", "hosts.addresses")
NOTHING = (*("!!binary x", "[[[[]]]]", "-1", "1e400", "yes"), "{a: {b: {c: d}}}", "[" * 3000, "'" + "x" * 9999 + "'")
NO_NETWORKS = ("0.0.0.0/0", "127.0.0.0/8", "224.0.0.0/4", "169.254.0.0/16", "240.0.0.0/4", "10.0.0.0/30", "::/0", "x")
# (cluster.yaml, the error without the file's name)
BAD = [
    *[(f"{key}: {value}", key) for key in NUMBERS for value in NO_NUMBERS],
    *[(f"{key}: {value}", key) for key in ANY for value in NOTHING],
    *[(f"{section}.subnet: {network}", "subnet") for section in ("local", "gcp") for network in NO_NETWORKS],
    ("nodes: 2\nnodes: 3", "key 'nodes' occurs twice"),
    ("local: {cpus: 1}\nlocal: {cpus: 2}", "key 'local' occurs twice"),
    ("prices: {a: -1}", "prices.a"),
    ("prices: {a: .inf}", "prices.a"),
    ("prices: {a: 1.0e+308}", "prices.a"),
    *[(f"train.{key}: {10**10}", key) for key in ("epochs", "steps", "batch_size", "test_samples")],
    (f"launch.fusion_threshold: {10**10}", "fusion_threshold"),
    ("name: ''", "name: ''"),
    ("name: " + "a" * 300, "name: 'aaa"),
    ("monitoring: {receivers: [{email: a@b, smarthost: 'mail:99999'}]}", "a port is 1 to 65535"),
    ("monitoring: {receivers: [{webhook: 'http://x'}, 5]}", "monitoring.receivers.1"),
    ("? [a]\n: b", "unhashable"),
    ("1: 2", "1: unknown key"),
    ("~: 2", "None: unknown key"),
    ("true: 2", "True: unknown key"),
    ("a: &a [*a]", "an alias"),
    ("- 1", "expected keys and values, found list"),
    ("5", "expected keys and values, found int"),
    ("'5'", "expected keys and values, found str"),
    ("\t", "line 1"),
    ("a: b: c", "line 1"),
    ("%", "line 1"),
    ("\x01", "unacceptable character"),
    ("provider: openstack", "openstack.image"),
    ("provider: hosts\nhosts: {addresses: [a, b]}\nnodes: 3", "nodes"),
]


RECEIVER = """
monitoring:
  receivers:
    - {email: a@b.example, smarthost: "mail:25", username: a, password_file: nowhere}
"""


@pytest.mark.parametrize(("text", "reason"), BAD, ids=[shown(text)[:40] for text, _ in BAD])
def test_bad_cluster_yaml_is_refused_with_file_and_key(cli: Cli, tmp_path: Path, text: str, reason: str) -> None:
    section, _, rest = text.partition(".")
    nested = section.isidentifier() and "\n" not in text and rest.partition(":")[0].isidentifier()
    (tmp_path / "cluster.yaml").write_text(f"{section}:\n  {rest}" if nested else text)
    reason = reason.rpartition(".")[2] if nested and "nested" not in reason else reason
    assert_refused(cli("plan"), "cluster.yaml: ", reason, codes=(2,))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x80", b"name: caf\xe9"])
def test_cluster_yaml_that_is_not_text_is_refused(cli: Cli, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cluster.yaml").write_bytes(content)
    assert_refused(cli("plan"), "cluster.yaml: ", "not UTF-8 text", codes=(2,))


@pytest.mark.parametrize("command", ["status", "runs", "teardown", "plan"])
@pytest.mark.parametrize(
    "name", ["''", "'../up'", "5", "[a]", "{a: b}", "Ä", "a b", "'" + "a" * 31 + "'", "true", "-a"]
)
def test_bad_name_is_refused_with_its_file_by_every_command(cli: Cli, tmp_path: Path, name: str, command: str) -> None:
    (tmp_path / "cluster.yaml").write_text(f"name: {name}\n")
    assert_refused(cli(command), "cluster.yaml: ", "name", codes=(2,))


def test_key_that_fails_later_is_named_unless_a_flag_gave_it(cli: Cli, tmp_path: Path) -> None:
    builders.deployed()
    (tmp_path / "cluster.yaml").write_text("launch: {np: 99}\ntrain: {data: nowhere, dataset: mnist, model: lenet}\n")
    assert_refused(cli("train", "--np", "1"), "error: cluster.yaml: train.data: ", "nowhere: no such", codes=(2,))
    (tmp_path / "mail.yaml").write_text(RECEIVER)
    finished = cli("plan", "--config", "mail.yaml", DOCKER_HOST="unix:///none")
    assert_refused(finished, "error: mail.yaml: monitoring.receivers.0.password_file: nowhere", codes=(2,))
    assert_refused(cli("train", "--np", "1", "--data", "gone"), "error: train.data: ", "gone: no such", codes=(2,))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("common: {epochs: 2026-13-45}", "common.epochs"),
        ("common: {epochs: !!int x}", "line 1"),
        ("common: {epochs: 1, epochs: 2}", "key 'epochs' occurs twice"),
        ("common: {}\ncommon: {}", "key 'common' occurs twice"),
        ("common: " + "[" * 3000, "nested"),
        ("common: {epochs: " + "9" * 5000 + "}", "digits"),
        ("common: {learning_rate: .inf}", "common.learning_rate"),
        (f"common: {{epochs: {10**10}}}", "common.epochs"),
        (f"common: {{fusion_threshold: {10**10}}}", "common.fusion_threshold"),
        ("common: {milestones: [a]}", "common.milestones.0"),
        ("common: {milestones: [true]}", "common.milestones.0: true is neither a number nor a name"),
        ("common: {momentum: no}", "common.momentum: false is neither a number nor a name"),
        ("commn: {}", "did you mean common?"),
        ("[]", "valid dictionary"),
        ("5", "valid dictionary"),
        ("false", "valid dictionary"),
        ("\x00", "unacceptable character"),
    ],
)
def test_bad_recipe_is_refused_with_file_and_key(cli: Cli, tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    finished = cli("train", "lenet", "--dataset", "mnist", "--recipe", "mine.yaml")
    assert_refused(finished, "mine.yaml: ", reason, codes=(2,))


@pytest.mark.parametrize(("path", "reason"), [("/dev/zero", "device"), (".", "directory"), ("none", "No such")])
def test_recipe_that_is_not_a_file_is_refused(cli: Cli, path: str, reason: str) -> None:
    finished = cli("train", "lenet", "--dataset", "mnist", "--recipe", path)
    assert_refused(finished, f"train.recipe: {path}: ", reason, codes=(2,))
