"""Column statistics, and the values of partitions for filters in SQL.

A partition's row held one document; now it holds what is searched for in columns, and shares its storage descriptor
with the table's other partitions. Rows are carried over both ways, some thousands at a time.

The search forms of values are frozen here as they were at this revision.

Revision ID: 0003
Revises: 0002
"""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ORDERED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
KEYS = 4
ROWS = 2000

NO_VALUE = ""
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
DIGITS_MAX, NUMBER_CHARACTERS_MAX = 22, 64
INTEGRAL = ("tinyint", "smallint", "int", "integer", "bigint")
DIGITS = re.compile(r"[+-]?[0-9]+")
DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T].*)?", re.DOTALL)
TIMESTAMP = re.compile(r"(\d{4}-\d{1,2}-\d{1,2})(?:[ T](\d{1,2}:\d{1,2}:\d{1,2})(?:\.(\d{1,9}))?)?")
COMPLEMENT = str.maketrans("0123456789", "9876543210")
ESCAPE = re.compile("%([0-9a-fA-F]{2})")


def upgrade() -> None:
    _set_aside("0002")
    op.create_table(
        "partition_sets",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("table_id", ROW_ID),
        sa.Column("location", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_partition_sets"),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name="fk_partition_sets_table_id", ondelete="SET NULL"),
        sa.UniqueConstraint("table_id", name="uq_partition_sets_table_id"),
    )
    op.create_table(
        "partition_storages",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("set_id", ROW_ID, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_partition_storages"),
        sa.ForeignKeyConstraint(["set_id"], ["partition_sets.id"], name="fk_partition_storages_set_id"),
        sa.UniqueConstraint("set_id", "digest", name="uq_partition_storages_set_id"),
    )
    op.create_table(
        "partitions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("set_id", ROW_ID, nullable=False),
        sa.Column("storage_id", sa.BigInteger()),
        sa.Column("name", ORDERED, nullable=False),
        sa.Column("key_0", ORDERED, nullable=False),
        *(sa.Column(f"key_{number}", ORDERED) for number in range(1, KEYS)),
        sa.Column("more_keys", sa.Text()),
        sa.Column("value_list", sa.Text()),
        sa.Column("location", sa.Text()),
        sa.Column("create_time", sa.BigInteger(), nullable=False),
        sa.Column("last_access_time", sa.BigInteger(), nullable=False),
        sa.Column("parameters", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_partitions"),
        sa.ForeignKeyConstraint(["set_id"], ["partition_sets.id"], name="fk_partitions_set_id"),
        sa.UniqueConstraint("set_id", "name", name="uq_partitions_set_id"),
    )
    _carry_up()
    op.drop_table("partitions_aside")
    # After the rows: an index that is built at once is smaller and done sooner.
    op.create_index("ix_partitions_key_0", "partitions", ["set_id", *(f"key_{number}" for number in range(KEYS))])
    for number in range(1, KEYS):
        present = sa.text(f"key_{number} IS NOT NULL")
        others = [f"key_{other}" for other in range(KEYS) if other != number]
        op.create_index(
            f"ix_partitions_key_{number}",
            "partitions",
            ["set_id", f"key_{number}", *others],
            sqlite_where=present,
            postgresql_where=present,
        )
    located = sa.text("location IS NOT NULL")
    op.create_index("ix_partitions_location", "partitions", ["set_id"], sqlite_where=located, postgresql_where=located)
    op.create_table(
        "partition_marks",
        sa.Column("table_id", ROW_ID, nullable=False),
        sa.Column("name", ORDERED, nullable=False),
        sa.Column("event_type", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "name", "event_type", name="pk_partition_marks"),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name="fk_partition_marks_table_id", ondelete="CASCADE"),
    )
    op.create_table(
        "table_statistics",
        sa.Column("table_id", ROW_ID, nullable=False),
        sa.Column("engine", sa.String(128), nullable=False),
        sa.Column("column_name", sa.Text(), nullable=False),
        sa.Column("column_type", sa.Text(), nullable=False),
        sa.Column("analyzed_at", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "engine", "column_name", name="pk_table_statistics"),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name="fk_table_statistics_table_id", ondelete="CASCADE"),
    )
    op.create_table(
        "partition_statistics",
        sa.Column("partition_id", ROW_ID, nullable=False),
        sa.Column("engine", sa.String(128), nullable=False),
        sa.Column("column_name", sa.Text(), nullable=False),
        sa.Column("set_id", sa.BigInteger(), nullable=False),
        sa.Column("column_type", sa.Text(), nullable=False),
        sa.Column("analyzed_at", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("partition_id", "engine", "column_name", name="pk_partition_statistics"),
        sa.ForeignKeyConstraint(
            ["partition_id"], ["partitions.id"], name="fk_partition_statistics_partition_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_partition_statistics_set_id", "partition_statistics", ["set_id"])

    _tell_planner()


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DELETE FROM sqlite_stat1 WHERE tbl = 'partitions'")
    for table in ("partition_statistics", "table_statistics", "partition_marks"):
        op.drop_table(table)
    for name in ("location", *(f"key_{number}" for number in range(KEYS))):
        op.drop_index(f"ix_partitions_{name}", "partitions")
    _set_aside("0003")
    op.create_table(
        "partitions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("table_id", ROW_ID, nullable=False),
        sa.Column("name", ORDERED, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_partitions"),
        sa.ForeignKeyConstraint(["table_id"], ["tables.id"], name="fk_partitions_table_id", ondelete="CASCADE"),
        sa.UniqueConstraint("table_id", "name", name="uq_partitions_table_id"),
    )
    _carry_down()
    for table in ("partitions_aside", "partition_storages", "partition_sets"):
        op.drop_table(table)


def _tell_planner() -> None:
    """Tell SQLite what to expect of the indexes: rows in all, for one set, for one value of the first key, and so on.

    Without that it takes a set for ten partitions, and goes through all of a million of them. PostgreSQL finds out.
    """
    if op.get_bind().dialect.name != "sqlite":
        return
    op.execute("ANALYZE sqlite_schema")
    expected = {
        "sqlite_autoindex_partitions_1": "1000000 100000 1",
        "ix_partitions_location": "1000 100",
        **{f"ix_partitions_key_{number}": "1000000 100000 2000 50 2 1" for number in range(KEYS)},
    }
    for index, rows in expected.items():
        op.execute(
            sa.text("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('partitions', :index, :rows)").bindparams(
                index=index, rows=rows
            )
        )


def _set_aside(revision_of_names: str) -> None:
    """Rename the table; PostgreSQL keeps the names of its constraints, which the new table wants."""
    op.rename_table("partitions", "partitions_aside")
    if op.get_bind().dialect.name == "postgresql":
        owner = {"0002": "table_id", "0003": "set_id"}[revision_of_names]
        for name in ("pk_partitions", f"uq_partitions_{owner}", f"fk_partitions_{owner}"):
            op.execute(f"ALTER TABLE partitions_aside RENAME CONSTRAINT {name} TO {name}_aside")
        op.execute("ALTER SEQUENCE partitions_id_seq RENAME TO partitions_aside_id_seq")


def _carry_up() -> None:
    connection = op.get_bind()
    tables = connection.execute(
        sa.text("SELECT id, document FROM tables WHERE id IN (SELECT table_id FROM partitions_aside)")
    ).all()
    partitions = sa.table("partitions", *(sa.column(name) for name in _COLUMNS))
    for table in tables:
        document = json.loads(table.document)
        root = (document.get("storage") or {}).get("location")
        types = [_plain_type(key[1]) for key in document.get("partition_keys", ())]
        set_id = _inserted("partition_sets", table_id=table.id, location=root)
        storages: dict[str, int] = {}
        for rows in _pages("SELECT id, name, document FROM partitions_aside WHERE table_id = :owner", table.id):
            new = []
            for row in rows:
                fields = json.loads(row.document)
                forms = [search_form(kind, value) for kind, value in zip(types, fields["values"], strict=False)]
                storage = fields.get("storage")
                location = storage.pop("location", None) if storage is not None else None
                new.append(
                    {
                        "set_id": set_id,
                        "storage_id": _storage_id(set_id, storage, storages),
                        "name": row.name,
                        "key_0": forms[0] if forms else "",
                        **{f"key_{i}": forms[i] if i < len(forms) else None for i in range(1, KEYS)},
                        "more_keys": _encoded(forms[KEYS:]) if len(forms) > KEYS else None,
                        "value_list": None if _told(row.name) == fields["values"] else _encoded(fields["values"]),
                        "location": _relative(root, row.name, location),
                        "create_time": fields.get("create_time", 0),
                        "last_access_time": fields.get("last_access_time", 0),
                        "parameters": _encoded(fields["parameters"]) if fields.get("parameters") else None,
                    }
                )
            connection.execute(partitions.insert(), new)


def _carry_down() -> None:
    connection = op.get_bind()
    old = sa.table("partitions", sa.column("table_id"), sa.column("name"), sa.column("document"))
    sets = connection.execute(
        sa.text("SELECT id, table_id, location FROM partition_sets WHERE table_id IS NOT NULL")
    ).all()
    for owner in sets:
        documents = connection.execute(
            sa.text("SELECT id, document FROM partition_storages WHERE set_id = :owner"), {"owner": owner.id}
        )
        storages = {row.id: row.document for row in documents}
        for rows in _pages("SELECT * FROM partitions_aside WHERE set_id = :owner", owner.id):
            new = []
            for row in rows:
                fields: dict[str, Any] = {
                    "values": _told(row.name) if row.value_list is None else json.loads(row.value_list),
                    "create_time": row.create_time,
                    "last_access_time": row.last_access_time,
                }
                if row.storage_id is not None:
                    storage = json.loads(storages[row.storage_id])["storage"]
                    location = _absolute(owner.location, row.name, row.location)
                    fields["storage"] = storage | ({} if location is None else {"location": location})
                if row.parameters is not None:
                    fields["parameters"] = json.loads(row.parameters)
                new.append({"table_id": owner.table_id, "name": row.name, "document": _encoded(fields)})
            connection.execute(old.insert(), new)


def _pages(statement: str, owner: int) -> Iterator[Any]:
    last = 0
    while True:
        rows = (
            op.get_bind()
            .execute(
                sa.text(f"{statement} AND id > :last ORDER BY id LIMIT :rows"),
                {"owner": owner, "last": last, "rows": ROWS},
            )
            .all()
        )
        if not rows:
            return
        yield rows
        last = rows[-1].id


def _storage_id(set_id: int, storage: dict[str, Any] | None, known: dict[str, int]) -> int | None:
    if storage is None:
        return None
    document = _encoded({"create_time": 0, "last_access_time": 0, "storage": storage})
    if document not in known:
        digest = hashlib.sha256(document.encode()).hexdigest()
        known[document] = _inserted("partition_storages", set_id=set_id, digest=digest, document=document)
    return known[document]


def _inserted(table: str, **values: Any) -> int:
    names = ", ".join(values)
    bound = ", ".join(f":{name}" for name in values)
    statement = sa.text(f"INSERT INTO {table} ({names}) VALUES ({bound}) RETURNING id")
    row_id: int = op.get_bind().execute(statement, values).scalar_one()
    return row_id


def _told(name: str) -> list[str]:
    values = []
    for part in name.split("/"):
        _, equals, value = part.partition("=")
        if equals:
            values.append(ESCAPE.sub(lambda match: chr(int(match[1], 16)), value))
    return values


def _plain_type(text: str | None) -> str:
    return (text or "string").partition("(")[0].strip().lower()


def search_form(plain_type: str, value: str) -> str:
    """A value of a partition's key as text whose order is that of the values; NO_VALUE for what is none of its type."""
    if plain_type in INTEGRAL:
        fits = DIGITS.fullmatch(value) and len(value) <= NUMBER_CHARACTERS_MAX
        return _integral_form(int(value)) if fits else NO_VALUE
    if plain_type == "date":
        return _date_form(value)
    if plain_type == "timestamp":
        return _timestamp_form(value)
    return value or DEFAULT_PARTITION


def _integral_form(number: int) -> str:
    digits = str(abs(number))
    if len(digits) > DIGITS_MAX:
        return NO_VALUE
    if number < 0:
        return chr(ord("W") - len(digits)) + digits.translate(COMPLEMENT)
    return chr(ord("a") + len(digits)) + digits


def _date_form(text: str) -> str:
    match = DATE.fullmatch(text)
    try:
        return NO_VALUE if match is None else date(int(match[1]), int(match[2]), int(match[3])).isoformat()
    except ValueError:
        return NO_VALUE


def _timestamp_form(text: str) -> str:
    match = TIMESTAMP.fullmatch(text)
    if match is None:
        return NO_VALUE
    day = _date_form(match[1])
    try:
        clock = datetime.strptime(match[2] or "00:00:00", "%H:%M:%S").strftime("%H:%M:%S")
    except ValueError:
        return NO_VALUE
    fraction = (match[3] or "").rstrip("0")
    return f"{day} {clock}{'.' + fraction if fraction else ''}" if day else NO_VALUE


def _relative(root: str | None, name: str, location: str | None) -> str | None:
    if root is None or location is None:
        return location
    inside = root.rstrip("/") + "/"
    if location == inside + name:
        return None
    return "./" + location[len(inside) :] if location.startswith(inside) else location


def _absolute(root: str | None, name: str, location: str | None) -> str | None:
    if root is None:
        return location
    inside = root.rstrip("/") + "/"
    if location is None:
        return inside + name
    return inside + location[2:] if location.startswith("./") else location


def _encoded(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


_COLUMNS = (
    "set_id",
    "storage_id",
    "name",
    *(f"key_{number}" for number in range(KEYS)),
    "more_keys",
    "value_list",
    "location",
    "create_time",
    "last_access_time",
    "parameters",
)
