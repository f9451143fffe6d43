"""The site and the command of the story."""

from tests.e2e.conftest import cli, site

__all__ = ["cli", "site"]
