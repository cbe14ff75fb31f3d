"""Hive's Java clients of versions 2.3.10, 3.1.3 and 4.0.1 with Kerberos: a program of one call of a metastore."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.hive_client import client_classpath
from tests.support.servers.java_metastore import PEERS, QUICK_START, jars_of_3_1_3
from tests.support.servers.kdc import KeyDistributionCenter
from tests.support.waits import at_most

VERSIONS = ("2.3.10", "3.1.3", "4.0.1")

_SOURCE = PEERS / "kerberos" / "java" / "KerberosClient.java"


def answers(version: str, kdc: KeyDistributionCenter, lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the client's answer to each line: address, server's principal, layer of protection, user's principal,
    keytab, name of a new database. RuntimeError if the client fails.
    """
    done = subprocess.run(
        ["java", *QUICK_START, *kdc.java_options, "-cp", _classpath(version), "KerberosClient"],
        input="\n".join("\t".join(line) for line in lines),
        capture_output=True,
        text=True,
        timeout=at_most(180),
        check=False,
    )
    # Hive logs to the same output.
    found = [line for line in done.stdout.splitlines() if line.startswith(("databases", "refused"))]
    if done.returncode or len(found) != len(lines):
        raise RuntimeError(f"the client of Hive {version} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return found


def _classpath(version: str) -> str:
    jars = {
        "2.3.10": lambda: f"{Path(pyspark.__file__).parent / 'jars'}/*",
        "3.1.3": lambda: f"{jars_of_3_1_3()}/*",
        "4.0.1": client_classpath,
    }[version]()

    def build(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", jars, _SOURCE)

    return f"{built_once(f'kerberos-client-{version}-{fingerprint(_SOURCE)}', build)}:{jars}"
