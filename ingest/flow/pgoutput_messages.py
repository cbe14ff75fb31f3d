"""The kinds of messages in pgoutput, and the one that stands among them for rows that PostgreSQL sends in another way.

See formats/pgoutput.py for what they look like.
"""

from collections.abc import Sequence

from interbed.ingest.flow.changes import SourceTable

BEGIN, COMMIT, RELATION, INSERT, UPDATE, DELETE, TRUNCATE = b"BCRIUDT"
COPIED = ord("#")
"""A row of a table's first state, as COPY writes it."""


def relation_message(
    number: int, table: SourceTable, identity: bytes, columns: Sequence[tuple[str, bool, int, int]]
) -> bytes:
    """The message that describes a table: each column has a name, is part of the identity, has a type and modifier."""
    parts = [bytes([RELATION]), number.to_bytes(4, "big"), table.database.encode(), b"\0", table.name.encode(), b"\0"]
    parts += [identity, len(columns).to_bytes(2, "big")]
    for name, is_key, oid, modifier in columns:
        parts += [bytes([is_key]), name.encode(), b"\0", oid.to_bytes(4, "big")]
        parts.append(modifier.to_bytes(4, "big", signed=True))
    return b"".join(parts)


def copied_message(number: int, line: bytes) -> bytes:
    """The message of a row of a table's first state."""
    return b"#%b%b" % (number.to_bytes(4, "big"), line)


def truncations_of(message: bytes) -> list[bytes]:
    """A message about emptied tables as one for each of them."""
    count = int.from_bytes(message[1:5], "big")
    head = message[:1] + (1).to_bytes(4, "big") + message[5:6]
    return [head + message[6 + 4 * i : 10 + 4 * i] for i in range(count)]
