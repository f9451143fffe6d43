"""Commands for many files of a node fit into the limits of its kernel."""

from pathlib import Path

from orchestrator.ssh.copying import node_files
from tests.stand_ins import ssh_stand_in


def test_names_full_of_quotes_fit_into_commands(tmp_path: Path) -> None:
    quotes = "'" * 100
    paths = [tmp_path / f"{number}{quotes}" for number in range(300)]
    for path in paths:
        path.touch()
    with ssh_stand_in.session() as session:
        assert len(node_files.statuses(session, map(str, paths))) == len(paths)
