"""Hive's Java clients of versions 2.3.10, 3.1.3 and 4.0.1 with Kerberos: a program of one call of a metastore."""

from collections.abc import Sequence

from tests.support.peers.hive_releases import RELEASES, output_of
from tests.support.servers.java_metastore import PEERS
from tests.support.servers.kdc import KeyDistributionCenter

VERSIONS = RELEASES

_SOURCE = PEERS / "kerberos" / "java" / "KerberosClient.java"


def answers(version: str, kdc: KeyDistributionCenter, lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the client's answer to each line: address, server's principal, layer of protection, user's principal,
    keytab, name of a new database. RuntimeError if the client fails.
    """
    given = "\n".join("\t".join(line) for line in lines)
    printed, errors = output_of(version, _SOURCE, given=given, java_options=kdc.java_options)
    # Hive logs to the same output.
    found = [line for line in printed if line.startswith(("databases", "refused"))]
    if len(found) != len(lines):
        raise RuntimeError(f"the client of Hive {version} failed:\n{errors[-4000:]}")
    return found
