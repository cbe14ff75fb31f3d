"""Hive's Java clients of the releases 2.3.10, 3.1.3 and 4.0.1: programs of one source, compiled for each release."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.hive_client import client_classpath
from tests.support.servers.java_metastore import QUICK_START, jars_of_3_1_3
from tests.support.waits import at_most

RELEASES = ("2.3.10", "3.1.3", "4.0.1")

_OPENED = ("--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.net=ALL-UNNAMED")
_SECONDS_MAX = at_most(240)


def output_of(
    release: str, source: Path, *arguments: str, given: str = "", java_options: Sequence[str] = ()
) -> tuple[list[str], str]:
    """Return the lines that a program with this source prints, and its errors. RuntimeError if it fails.

    `given` is its input. Hive logs to the same output.
    """
    done = subprocess.run(
        ["java", *QUICK_START, *_OPENED, *java_options, "-cp", _classpath(release, source), source.stem, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{source.stem} of Hive {release} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout.splitlines(), done.stderr


def _classpath(release: str, source: Path) -> str:
    jars = {
        "2.3.10": lambda: f"{Path(pyspark.__file__).parent / 'jars'}/*",
        "3.1.3": lambda: f"{jars_of_3_1_3()}/*",
        "4.0.1": client_classpath,
    }[release]()

    def build(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", jars, source)

    return f"{built_once(f'{source.stem.lower()}-{release}-{fingerprint(source)}', build)}:{jars}"
