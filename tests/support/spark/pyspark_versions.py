"""The versions of PySpark that interbed works with, each installed once in the tests' cache.

The environment of the tests has INSTALLED; the others are put before it on the path of a process of its own.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.peers.cache import built_once, run

INSTALLED = "4.1"
VERSIONS = {"4.0": "4.0.5", "4.2": "4.2.1", "4.3": "4.3.0"}
"""The exact version that stands for each of the others."""
_EXACT = {**VERSIONS, "3.5": "3.5.9"}  # Paimon's own connector runs in 3.5.


def pyspark_directory(version: str) -> Path:
    """Where the PySpark of that version is installed; some 400 MB each."""
    exact = _EXACT[version]

    def build(directory: Path) -> None:
        run(sys.executable, "-m", "pip", "install", "--quiet", "--target", directory, f"pyspark=={exact}")

    return built_once(f"pyspark-{exact}", build)


def version_variables(version: str, path: Sequence[Path]) -> dict[str, str]:
    """The variables of a process with that PySpark and these directories on its path, for spark_process."""
    before = [] if version == INSTALLED else [pyspark_directory(version)]
    return {"PYTHONPATH": os.pathsep.join(map(str, (*before, *path)))}
