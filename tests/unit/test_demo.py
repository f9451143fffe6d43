"""scripts/demo.sh, with a stand-in for the command that it shows."""

import subprocess
from pathlib import Path

DEMO = Path(__file__).parents[2] / "scripts" / "demo.sh"


def test_no_command_of_the_demo_reads_the_cluster_yaml_of_the_directory(tmp_path: Path) -> None:
    command = tmp_path / ".venv" / "bin" / "orchestrator"
    for path, text in (
        (command, '#!/bin/sh\necho "$*" >> said\n'),
        (tmp_path / "scripts" / "demo.sh", DEMO.read_text()),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    command.chmod(0o755)
    subprocess.run(["sh", tmp_path / "scripts" / "demo.sh"], check=True, capture_output=True)
    said = (tmp_path / "said").read_text().splitlines()
    assert [line.split()[0] for line in said] == ["deploy", "status", "train", "teardown"]
    assert all(line.endswith("--cluster demo --config /dev/null") for line in said)
