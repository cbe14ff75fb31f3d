"""Delegation tokens by the Java clients of Hive 2.3.10, 3.1.3 and 4.0.1: one program, compiled for each release."""

from collections.abc import Sequence

from tests.support.peers.hive_releases import RELEASES, output_of
from tests.support.servers.java_metastore import PEERS

_SOURCE = PEERS / "hive_delegation" / "java" / "DelegationClient.java"


def answers_of(release: str, *commands: Sequence[str], java_options: Sequence[str] = ()) -> list[str]:
    """Return the answer to each command, `ok …` or `refused …`. RuntimeError if the program fails."""
    given = "\n".join("\t".join(each) for each in commands)
    lines, errors = output_of(release, _SOURCE, given=given, java_options=java_options)
    found = [line.strip() for line in lines if line.startswith(("ok", "refused"))]
    if len(found) != len(commands):
        raise RuntimeError(f"the client of Hive {release} failed:\n{errors[-4000:]}")
    return found


__all__ = ["RELEASES", "answers_of"]
