"""Versions of PySpark that interbed supports, each installed once in the tests' cache.

The environment of the tests has INSTALLED. The others precede it on the path of a separate process.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.peers.cache import built_once, run

INSTALLED = "4.1"
VERSIONS = {"4.0": "4.0.5", "4.2": "4.2.1", "4.3": "4.3.0"}
"""Exact version for each of the other minor versions."""
_EXACT = {**VERSIONS, "3.5": "3.5.9"}  # Paimon's own connector runs in 3.5.


def pyspark_directory(version: str) -> Path:
    """Return the directory with that version of PySpark; each takes some 400 MB."""
    exact = _EXACT[version]

    def build(directory: Path) -> None:
        run(sys.executable, "-m", "pip", "install", "--quiet", "--target", directory, f"pyspark=={exact}")

    return built_once(f"pyspark-{exact}", build)


def version_variables(version: str, path: Sequence[Path]) -> dict[str, str]:
    """Return the variables of a process with that PySpark and these directories on its path, for spark_process."""
    before = [] if version == INSTALLED else [pyspark_directory(version)]
    return {"PYTHONPATH": os.pathsep.join(map(str, (*before, *path)))}
