"""The git hooks run the tools of `make check`."""

import re
from typing import Any

import yaml

from orchestrator import packaged_files

ROOT = packaged_files.PACKAGE.parent


TOOLS = re.compile(r"ruff check|ruff format|mypy|fmt -check|ansible-lint|hadolint|codespell|rumdl|mkdocs|test_\w+")


def tools(command: str) -> set[str]:
    return set(TOOLS.findall(command.lower()))


def hooks() -> list[dict[str, Any]]:
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    return list(repository["hooks"])


def test_hooks_run_every_tool_of_make_check() -> None:
    check = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert check
    assert [line for line in check[1].splitlines() if not tools(line)] == []
    assert tools(check[1]) == tools("\n".join(hook["entry"] for hook in hooks()))


def test_every_hook_reads_files_that_exist() -> None:
    files = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if ".venv" not in path.parts]
    patterns = {hook["id"]: hook.get("files", "") for hook in hooks()}
    assert [name for name, pattern in patterns.items() if not any(re.search(pattern, file) for file in files)] == []
