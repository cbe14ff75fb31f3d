"""Run the extension's tests on other versions of PySpark, with the one jar that was compiled against the installed one.

    python -m tests.spark_ext.run_versions [--versions 4.0 4.2 4.3] [pytest's arguments]

Each version is put before the installed one on the path; nothing is installed into the environment that runs this. The
tests that start every version by themselves are left out.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from tests.support.spark.pyspark_versions import VERSIONS, version_variables
from tests.support.spark.spark_process import clean_environment
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[2]
BUILD_TIMEOUT_SECONDS = at_most(600)
TEST_TIMEOUT_SECONDS = 3 * 3600
WITHOUT = ("test_versions.py", "test_scripts.py")


def run_tests(version: str, arguments: list[str]) -> int:
    """Run pytest with that PySpark, and return its exit code."""
    left_out = [f"--ignore-glob=tests/spark_ext/{name}" for name in WITHOUT]
    chosen = [] if any(argument.startswith("tests/") for argument in arguments) else ["tests/spark_ext"]
    command = [sys.executable, "-m", "pytest", *left_out, *chosen, *arguments]
    environment = {**clean_environment(), **version_variables(version, [ROOT / "src"])}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=TEST_TIMEOUT_SECONDS).returncode


def main() -> int:
    """Run all versions. Return 0 if every version passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", nargs="+", choices=VERSIONS, default=list(VERSIONS))
    chosen, arguments = parser.parse_known_args()
    subprocess.run([sys.executable, str(ROOT / "hatch_build.py")], check=True, timeout=BUILD_TIMEOUT_SECONDS)
    outcomes = {}
    for version in chosen.versions:
        print(f"== PySpark {version}", flush=True)
        outcomes[version] = run_tests(version, arguments)
    for version, code in outcomes.items():
        print(f"PySpark {version}: {'passed' if code == 0 else f'failed with exit code {code}'}")
    return max(outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
