"""docs/reference equals the code."""

import pytest
import yaml

from orchestrator import config
from scripts import write_reference


@pytest.mark.parametrize("name", write_reference.PAGE)
def test_reference_page_equals_the_code(name: str) -> None:
    assert (write_reference.PAGES / name).read_text() == write_reference.PAGE[name](), (
        "run `python -m scripts.write_reference`"
    )


def test_example_of_every_key_is_a_valid_file() -> None:
    config.Config.model_validate(yaml.safe_load(write_reference.EXAMPLES.read_text()))


def test_exit_codes_of_the_page_equal_those_of_the_errors() -> None:
    page = write_reference.code_page()
    assert "| 75 | `RunStopped` |" in page
    assert "| 2 | `ConfigError` |" in page


def test_type_of_a_key_names_its_bounds_and_words() -> None:
    page = write_reference.key_page()
    assert "| `nodes` | integer, 1 to 100 | `2` |" in page
    assert "| `hosts.storage` | `nfs` or `mounted` | `nfs` |" in page
    assert "| `train.max_time` | duration |" in page


def test_commands_show_the_placeholders_and_defaults_of_their_help() -> None:
    page = write_reference.command_page()
    assert "| `SRC` |" in page
    assert "| `FILE` or `NAME` | Study file" in page
    assert "| `--resume RUN` |" in page
    assert "; default: 2s. |" in page
    assert "| `--deploy`, `--no-deploy` |" in page


def test_keys_of_hosts_and_receivers_are_listed() -> None:
    page = write_reference.key_page()
    assert "| `private_address` | text | the address |" in page
    assert "| `from` | text | the receiver's address |" in page
