"""YAML of other people: constructs that PyYAML misreads are refused with line and key."""

import itertools
import time
from pathlib import Path

import pytest

from orchestrator.config import yaml_documents
from orchestrator.schema.bounded_files import Unreadable

NINE = ",".join(["*{}"] * 9)
LETTERS = "abcdefghi"
BOMB = "a: &a [x,x]\n" + "".join(f"{b}: &{b} [{NINE.replace('{}', a)}]\n" for a, b in itertools.pairwise(LETTERS))
MERGES = "a: &a {k: 1}\n" + "".join(
    f"{b}: &{b} {{<<: [{NINE.replace('{}', a)}]}}\n" for a, b in itertools.pairwise(LETTERS)
)
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 3000))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nodes: !!int abc", "line 1: nodes: 'abc': not of the type int"),
        ("a: 1\nnodes: !!int ''", "line 2: nodes: '': not of the type int"),
        ("nodes: !!float abc", "line 1: nodes: 'abc': not of the type float"),
        ("nodes: !!bool abc", "line 1: nodes: 'abc': not of the type bool"),
        ("nodes: !!timestamp abc", "line 1: nodes: 'abc': not of the type timestamp"),
        ("nodes: " + "9" * 5000, "a number of more than 100 digits"),
        ("nodes: " + "[" * 3000 + "]" * 3000, "line 1: nodes: nested more than 32 levels deep"),
        ("nodes: 1\nslots: 2\nnodes: 3", "line 3: nodes: key 'nodes' occurs twice"),
        ("local: {cpus: 1}\nlocal: {memory: 2}", "line 2: local: key 'local' occurs twice"),
        (BOMB, "once every alias is replaced"),
        (MERGES, "once every alias is replaced"),
        (CHAIN, "once every alias is replaced"),
        ("a: &a [*a]", "an alias stands for what holds it"),
        ("a: [1", "line 1: a: not YAML"),
        ("a: \x00", "not YAML: unacceptable character"),
        ('a: "\\0"', "line 1: a: holds a NUL byte"),
        ('a: "\\ud800"', "half a surrogate pair"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("? [a]\n: b", "unhashable key"),
        ("a: b\n---\nc: d", "another document"),
        (b"name: caf\xe9", "line 1: not UTF-8 text (byte 0xe9)"),
    ],
)
def test_unusable_yaml_is_refused_with_its_place(text: str | bytes, reason: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unreadable) as caught:
        yaml_documents.load(text, "cluster.yaml")
    assert str(caught.value).startswith("cluster.yaml: ")
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 250
    assert time.monotonic() - began < 10


def test_value_of_a_secret_is_not_shown() -> None:
    with pytest.raises(Unreadable) as caught:
        yaml_documents.load("jupyter_password: !!int hunter2", "cluster.yaml")
    assert str(caught.value) == "cluster.yaml: line 1: jupyter_password: not of the type int"


def test_date_is_read_as_text() -> None:
    assert yaml_documents.load("nodes: 2026-13-45", "cluster.yaml") == {"nodes": "2026-13-45"}


def test_merged_key_may_be_overridden() -> None:
    text = "x: {y: &a {<<: &c {k: 1}, k: 2}}\nb: {<<: *a, m: 3}"
    assert yaml_documents.load(text, "cluster.yaml") == {"x": {"y": {"k": 2}}, "b": {"k": 2, "m": 3}}


def test_file_is_read_as_utf_8_in_any_locale(tmp_path: Path) -> None:
    (tmp_path / "some.yaml").write_bytes("name: café\n".encode())
    assert yaml_documents.read(tmp_path / "some.yaml") == {"name": "café"}
