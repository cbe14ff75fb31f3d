"""The places of databases and tables as columns, so that what lies in a directory is found before it is deleted.

How a place is written is frozen here as it was at this revision: rules that change later need a migration of their own.

Revision ID: 0009
Revises: 0008
"""

import json
import os
import re
import unicodedata

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

PLACE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ROWS_AT_ONCE = 1000

KEY_LENGTH_MAX = 600
LENGTH_MAX, DEPTH_MAX, NAME_BYTES_MAX = 4000, 250, 255
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*", re.ASCII)
ONE_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
WITHOUT_AUTHORITY = ("hdfs", "viewfs", "maprfs", "dbfs", "alluxio")
AZURE = ("abfs", "abfss", "wasb", "wasbs")
DEFAULT_PORTS = {"hdfs": ("8020", "9000"), "webhdfs": ("9870", "50070"), "alluxio": ("19998",)}


def upgrade() -> None:
    for table in ("databases", "tables"):
        op.add_column(table, sa.Column("place", PLACE))
        _fill(table)
        op.create_index(f"ix_{table}_place", table, ["place"])
    op.create_table(
        "linked_places",
        sa.Column("table_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("partition_name", PLACE, nullable=False),
        sa.Column("place", PLACE, nullable=False),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name="fk_linked_places_table_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("table_id", "partition_name", name="pk_linked_places"),
    )
    op.create_index("ix_linked_places_place", "linked_places", ["place"])


def downgrade() -> None:
    op.drop_table("linked_places")
    for table in ("tables", "databases"):
        op.drop_index(f"ix_{table}_place", table)
        op.drop_column(table, "place")


def _fill(name: str) -> None:
    table = sa.table(name, sa.column("id", sa.BigInteger), sa.column("document", sa.Text), sa.column("place", sa.Text))
    connection = op.get_bind()
    last = -1
    while rows := connection.execute(
        sa.select(table.c.id, table.c.document).where(table.c.id > last).order_by(table.c.id).limit(ROWS_AT_ONCE)
    ).all():
        last = rows[-1].id
        changes = [{"row": row.id, "at": place_of(_location(name, row.document))} for row in rows]
        connection.execute(
            sa.update(table).where(table.c.id == sa.bindparam("row")).values(place=sa.bindparam("at")), changes
        )


def _location(name: str, document: str) -> str | None:
    fields = json.loads(document)
    found = fields if name == "databases" else fields.get("storage") or {}
    location: str | None = found.get("location")
    return location


def place_of(location: str | None) -> str | None:
    """The spelling by which a stored location is compared, as far as an index has room for it.

    Earlier versions took dots, relative paths and credentials: those are resolved by their text or left out. What can't
    be read is its own place.
    """
    if location is None:
        return None
    for spelling in (location, _resolved(location)):
        found = None if spelling is None else _place(spelling)
        if found is not None:
            return found[:KEY_LENGTH_MAX]
    return location[:KEY_LENGTH_MAX]


def _resolved(location: str) -> str | None:
    scheme, separator, rest = location.partition("://")
    try:
        if separator and scheme.lower() != "file":
            authority, slash, path = rest.rpartition("@")[2].partition("/")
            return f"{scheme}://{authority}{os.path.normpath(slash + path) if slash else ''}"
        path = location.partition(":")[2] if location.lower().startswith("file:") else location
        return "/" + os.path.abspath(path).lstrip("/")
    except (ValueError, OSError):
        return None


def _place(location: str) -> str | None:
    """The place of an absolute location; None for one that is not taken."""
    if len(location) > LENGTH_MAX or any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in location):
        return None
    if location.startswith("/"):
        return _text("file", "", location)
    scheme, colon, rest = location.partition(":")
    if not colon or SCHEME.fullmatch(scheme) is None:
        return None
    scheme = scheme.lower()
    authority, path = "", rest
    if rest.startswith("//") and not (scheme == "file" and rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    if _has_secret(scheme, authority, rest) or (path and not path.startswith("/")):
        return None
    if scheme == "file":
        return _text(scheme, "", path) if path and authority.lower() in ("", "localhost") else None
    if not authority and scheme not in WITHOUT_AUTHORITY:
        return None
    return _text(scheme, authority, path)


def _has_secret(scheme: str, authority: str, rest: str) -> bool:
    before, at, _ = authority.rpartition("@")
    if scheme in AZURE:
        return ":" in before or "@" in before
    has_port = authority.rpartition(":")[2].isdigit()
    return bool(at) or (scheme != "file" and ":" in authority and not has_port and "@" in rest)


def _text(scheme: str, authority: str, path: str) -> str | None:
    names = [name for name in path.split("/") if name]
    if len(names) > DEPTH_MAX or not {".", ".."}.isdisjoint(names):
        return None
    if scheme == "file":
        return None if any(len(name.encode()) > NAME_BYTES_MAX for name in names) else "/".join(("file:", *names))
    host = authority.lower()
    if scheme in AZURE:
        host = host.replace(".blob.", ".dfs.")
    name, colon, port = host.rpartition(":")
    if colon and port in DEFAULT_PORTS.get(scheme, ()):
        host = name
    return "/".join((f"{ONE_STORE.get(scheme, scheme)}://{host}", *names))
