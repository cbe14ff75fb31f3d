"""Run the extension's tests on other versions of PySpark, with the one jar that was compiled against the installed one.

    python tests/spark_ext/run_versions.py [--versions 4.0 4.2 4.3] [pytest's arguments]

Each version is installed once into a directory of its own, `$INTERBED_CACHE` or `~/.cache/interbed`, and put before the
installed one on the path; nothing is installed into the environment that runs this. Takes some 400 MB for each version.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.spark_process import clean_environment  # noqa: E402 - found by the line before.

VERSIONS = ("4.0", "4.2", "4.3")
INSTALL_TIMEOUT_SECONDS = 1800
TEST_TIMEOUT_SECONDS = 1800


def install(version: str) -> Path:
    """The directory that holds the newest PySpark of the version."""
    cache = Path(os.environ.get("INTERBED_CACHE", Path.home() / ".cache" / "interbed"))
    target = cache / f"pyspark-{version}"
    if not (target / "pyspark" / "jars").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), f"pyspark=={version}.*"]
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_SECONDS)
    return target


def run_tests(directory: Path, arguments: list[str]) -> int:
    """pytest's exit code with that PySpark."""
    environment = clean_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(directory), str(ROOT / "src")])
    command = [sys.executable, "-m", "pytest", "tests/spark_ext", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=TEST_TIMEOUT_SECONDS).returncode


def main() -> int:
    """Run them all; 0 when every version passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", nargs="+", default=VERSIONS)
    chosen, arguments = parser.parse_known_args()
    subprocess.run([sys.executable, str(ROOT / "hatch_build.py")], check=True, timeout=INSTALL_TIMEOUT_SECONDS)
    outcomes = {}
    for version in chosen.versions:
        directory = install(version)
        print(f"== PySpark {version} in {directory}", flush=True)
        outcomes[version] = run_tests(directory, arguments)
    for version, code in outcomes.items():
        print(f"PySpark {version}: {'passed' if code == 0 else f'failed with exit code {code}'}")
    return max(outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
