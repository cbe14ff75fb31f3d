"""Delegation tokens by the Java clients of Hive 2.3.10, 3.1.3 and 4.0.1: one program, compiled for each release."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.hive_client import client_classpath
from tests.support.servers.java_metastore import PEERS, QUICK_START, jars_of_3_1_3
from tests.support.waits import at_most

RELEASES = ("2.3.10", "3.1.3", "4.0.1")

_SOURCE = PEERS / "hive_delegation" / "java" / "DelegationClient.java"
_SECONDS_MAX = at_most(240)


def answers_of(release: str, *commands: Sequence[str], java_options: Sequence[str] = ()) -> list[str]:
    """Return the answer to each command, `ok …` or `refused …`. RuntimeError if the program fails."""
    done = subprocess.run(
        ["java", *QUICK_START, *_OPENED, *java_options, "-cp", _classpath(release), "DelegationClient"],
        input="\n".join("\t".join(each) for each in commands),
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    found = [line.strip() for line in done.stdout.splitlines() if line.startswith(("ok", "refused"))]
    if done.returncode or len(found) != len(commands):
        raise RuntimeError(f"the client of Hive {release} failed:\n{done.stderr[-4000:]}")
    return found


_OPENED = ("--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.net=ALL-UNNAMED")


def _classpath(release: str) -> str:
    jars = {
        "2.3.10": lambda: f"{Path(pyspark.__file__).parent / 'jars'}/*",
        "3.1.3": lambda: f"{jars_of_3_1_3()}/*",
        "4.0.1": client_classpath,
    }[release]()

    def compile_client(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", jars, _SOURCE)

    return f"{built_once(f'hive-delegation-{release}-{fingerprint(_SOURCE)}', compile_client)}:{jars}"
