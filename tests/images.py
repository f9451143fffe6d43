"""Build the node image before the tests that need it, and show progress: ``python -m tests.images [FRAMEWORK]``."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.config import Config
from orchestrator.docker import build, context
from orchestrator.docker.engine import Engine

if __name__ == "__main__":
    config = Config.model_validate({"framework": sys.argv[1] if sys.argv[1:] else "tensorflow"})
    with TemporaryDirectory() as logs:
        build.ensure(Engine(), "node", context.variant(config), Path(logs) / "image.log")
