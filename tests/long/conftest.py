"""The site and the command of the story, and nodes for several files."""

from tests.e2e.conftest import cli, site
from tests.e2e.shared_nodes import shared_nodes

__all__ = ["cli", "shared_nodes", "site"]
