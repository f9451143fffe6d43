"""Redaction of exported runs: known passwords, and passwords in addresses."""

import base64
import json
import time

import pytest

from orchestrator.reproduction import redaction

SECRET = 'corr?ct/h0rse+"batt>ry"'  # noqa: S105


def test_passwords_of_configuration_and_environment_are_known() -> None:
    config = {
        "jupyter_password": "of-jupyter",
        "provider": "local",
        "monitoring": {"receivers": [{"email": "a@b", "smtp_password": "of-mail"}]},
    }
    environment = {
        "OS_PASSWORD": "of-cloud",
        "HF_TOKEN": "of-hub",
        "HOME": "/root",
        "MY_SECRET": "short",
        "PWD": "/tmp",
    }
    assert redaction.passwords(config, environment) == {"of-jupyter", "of-mail", "of-cloud", "of-hub"}


@pytest.mark.parametrize(
    "name",
    ["DB_PASS", "SSHPASS", "PASSPHRASE", "MYSQL_PWD", "OPENAI_KEY", "KEY", "API_TOKENS", "REDISCLI_AUTH", "BEARER"],
)
def test_short_words_for_a_password_or_key_are_known(name: str) -> None:
    assert redaction.passwords({}, {name: "a-password"}) == {"a-password"}


@pytest.mark.parametrize(
    "name", ["KEYBOARD", "MONKEY", "OLDPWD", "COMPASS", "KEYS_OF_MAP", "MAX_TOKENS", "TOKENIZERS_PARALLELISM"]
)
def test_names_that_only_contain_such_letters_are_no_passwords(name: str) -> None:
    assert redaction.passwords({}, {name: "some-value"}) == set()


def test_variable_with_a_file_name_is_no_password() -> None:
    assert redaction.passwords({}, {"GOOGLE_APPLICATION_CREDENTIALS": __file__}) == set()


@pytest.mark.parametrize("around", [b"", b"x", b"xy", b"xyz"])
def test_secret_is_redacted_in_each_of_its_forms(around: bytes) -> None:
    text = SECRET.encode()
    coded, safe = base64.b64encode(around + text + around), base64.urlsafe_b64encode(around + text + around)
    files = {"plain": around + text, "json": json.dumps(SECRET).encode(), "base64": coded, "safe": safe, "other": b"."}
    clean, cleaned = redaction.without(files, {SECRET})
    assert cleaned == ["base64", "json", "plain", "safe"]
    for content in (clean["base64"], clean["safe"]):
        parts = content.replace(b"-", b"+").replace(b"_", b"/").split(redaction.REMOVED)
        assert all(len(part) <= len(around) * 2 + 4 for part in parts)
    assert clean["plain"] == around + redaction.REMOVED
    assert clean["other"] == b"."


def test_secret_is_redacted_in_json_with_characters_beyond_ascii() -> None:
    content = json.dumps(['schlüssel"wort'], ensure_ascii=False).encode()
    clean, _ = redaction.without({"run.json": content}, {'schlüssel"wort'})
    assert clean["run.json"] == b'["[removed]"]'


def test_password_that_is_encoded_in_an_address_is_redacted_plain_too() -> None:
    files = {"requirements.txt": b"https://me:p%40ss%2Fw0rd@example.org/", "log": b"got p@ss/w0rd"}
    assert redaction.without(files, set())[0] == {"requirements.txt": b"https://example.org/", "log": b"got [removed]"}


@pytest.mark.parametrize(
    ("line", "clean"),
    [
        (
            b"--index-url https://user:t0ken-value@pypi.example.org/simple",
            b"--index-url https://pypi.example.org/simple",
        ),
        (b"https://t0ken-value@example.org/x.whl", b"https://example.org/x.whl"),
        (b"postgres://me:t0ken-value@db/x", b"postgres://db/x"),
        (b"https://t0ken-value@", b"https://"),
        (b"https://h/x?X-Amz-Signature=t0ken-value", b"https://h/x?X-Amz-Signature=[removed]"),
        (b"https://h/x?client_secret=t0ken-value&y=1", b"https://h/x?client_secret=[removed]&y=1"),
        (b"git+ssh://git@example.org/x.git", b"git+ssh://git@example.org/x.git"),
        (b"https://example.org/x?token=t0ken-value&y=1", b"https://example.org/x?token=[removed]&y=1"),
        (b"see https://example.org/a, mail me@example.org", b"see https://example.org/a, mail me@example.org"),
    ],
)
def test_passwords_in_addresses_are_redacted_in_every_file(line: bytes, clean: bytes) -> None:
    redacted, _ = redaction.without({"requirements.txt": line, "log": b"got t0ken-value"}, set())
    assert redacted["requirements.txt"] == clean
    assert redacted["log"] == (b"got [removed]" if b"t0ken" in line else b"got t0ken-value")


@pytest.mark.parametrize("scheme", [b"https", b"postgres"])
@pytest.mark.parametrize("password", [b"p@ssw0rd", b"p:ssw0rd", b"long-p@-word@"])
def test_password_with_a_sign_of_addresses_is_redacted_as_a_whole(scheme: bytes, password: bytes) -> None:
    files = {"run.json": scheme + b"://me:" + password + b"@h/x", "log": b"got " + password}
    redacted, _ = redaction.without(files, set())
    assert redacted == {"run.json": scheme + b"://h/x", "log": b"got [removed]"}


@pytest.mark.parametrize("word", [b"a", b"-----BEGIN PRIVATE KEY-----", b"eyJaaaaaaaaaaaa-", b"eyJaaaaaaaaaaaa."])
def test_long_words_are_redacted_in_linear_time(word: bytes) -> None:
    seconds = [cpu_seconds(word * ((megabytes << 20) // len(word))) for megabytes in (1, 4)]
    assert seconds[1] < 8 * seconds[0]  # in quadratic time 16


def cpu_seconds(content: bytes) -> float:
    started = time.process_time()
    redaction.without({"blob": content}, {SECRET})
    return time.process_time() - started


@pytest.mark.parametrize(
    "token",
    [
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2" * 10,
        "glpat-" + "a1B2" * 5,
        "hf_" + "a1B2" * 9,
        "AKIA" + "A1B2" * 4,
        "ASIA" + "A1B2" * 4,
        "sk-proj-" + "a1B2" * 10,
        "sk-ant-api03-" + "a1B2" * 10,
        "xoxb-1234567890-abcdef",
        "AIza" + "a1B2c3D" * 5,
        "ya29." + "a1B2" * 10,
        "pypi-" + "AgEI" * 15,
        "npm_" + "a1B2" * 9,
        "dckr_pat_" + "a1B2" * 7,
        "sk_live_" + "a1B2" * 6,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhMUIyIn0.a1B2c3D4e5F6",
    ],
)
def test_token_of_a_known_service_is_redacted_in_every_file(token: str) -> None:
    """The variable that had it may not be set any more."""
    files = {"code/train.py": f'login("{token}")\n'.encode(), "log": b"x " + base64.b64encode(token.encode())}
    clean, cleaned = redaction.without(files, set())
    assert cleaned == ["code/train.py", "log"]
    assert clean["code/train.py"] == b'login("[removed]")\n'


@pytest.mark.parametrize("kind", [b"OPENSSH PRIVATE KEY", b"PRIVATE KEY", b"PGP PRIVATE KEY BLOCK"])
@pytest.mark.parametrize("header", [b"", b"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,A1B2\n\n"])
def test_private_key_is_redacted_as_a_whole(kind: bytes, header: bytes) -> None:
    key = b"-----BEGIN " + kind + b"-----\n" + header + b"b3BlbnNzaC1rZXk\nAAAA\n-----END " + kind + b"-----"
    clean, _ = redaction.without({"log": b"loaded " + key + b" at last"}, set())
    assert clean["log"] == b"loaded [removed] at last"


@pytest.mark.parametrize("text", [b"hf_hub_download", b"risk-averse", b"sk-learn", b"AKIA", b"ghp_x", b"task-sk-1"])
def test_word_that_begins_like_a_token_stays(text: bytes) -> None:
    assert redaction.without({"code/a.py": text}, set())[1] == []
