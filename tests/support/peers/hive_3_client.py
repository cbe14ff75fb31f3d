"""The Java client of Hive 3.1.3: a program of 120 calls to a metastore, and the recorded answers.

The answers of Java's own metastore 3.1.3 are in tests/peers/hive_client_3/reference.txt. This command records them
again:

    python -m tests.support.peers.hive_3_client
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.servers.java_metastore import PEERS, QUICK_START, jars_of_3_1_3, running_java_metastore
from tests.support.waits import at_most

REFERENCE = PEERS / "hive_client_3" / "reference.txt"

_SOURCE = PEERS / "hive_client_3" / "java" / "ClientCalls.java"
_SECONDS_MAX = at_most(180)


def answers_of(uri: str, warehouse: Path) -> dict[str, str]:
    """Return the answers of a metastore with this address and empty warehouse to each call, in order."""
    command = ["java", *QUICK_START, "-cp", _classpath(), "ClientCalls", uri, str(warehouse)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    if done.returncode:
        raise RuntimeError(f"the client of Hive 3.1.3 failed:\n{done.stderr[-4000:]}")
    return _parsed(done.stdout)


def answers_of_java() -> dict[str, str]:
    """Return the answers of Java's own metastore 3.1.3 to each call."""
    with running_java_metastore("3.1.3", java_options=QUICK_START) as running:
        return answers_of(running.uri, running.warehouse)


def reference() -> dict[str, str]:
    """Return the recorded answers of Java's own metastore."""
    return _parsed(REFERENCE.read_text("utf-8"))


def record(answers: Mapping[str, str]) -> None:
    """Write the answers to the reference file."""
    REFERENCE.write_text("".join(f"{name}\t{answer}\n" for name, answer in answers.items()), "utf-8")


def _parsed(lines: str) -> dict[str, str]:
    return {name: answer for name, _, answer in (line.partition("\t") for line in lines.splitlines())}


def _classpath() -> str:
    jars = jars_of_3_1_3()

    def compile_calls(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", _SOURCE)

    return f"{built_once(f'hive-3-client-{fingerprint(_SOURCE)}', compile_calls)}:{jars}/*"


if __name__ == "__main__":
    record(answers_of_java())
