"""Tables with very many partitions for tests and benchmarks, created in the database by one statement."""

from collections.abc import Sequence
from datetime import date, timedelta

from sqlalchemy import text

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.filters.tree import kind_of_type, search_form
from interbed.catalog.server.service.model import MetastoreColumn, MetastorePartition, StorageDescriptor
from interbed.catalog.server.service.names import partition_name

KEYS = (("dt", "string"), ("hour", "int"), ("region", "string"))
HOURS = 24

_PARAMETERS = '{"transient_lastDdlTime":"1700000000","numFiles":"7","totalSize":"123456789","numRows":"100000"}'


def days_and_regions(partitions: int) -> tuple[list[str], list[str]]:
    """Return values of `dt` and `region` that give about this number of partitions with 24 values of `hour`."""
    regions = [f"region-{number:02}" for number in range(max(1, min(42, partitions // (HOURS * 10))))]
    days = max(1, partitions // (HOURS * len(regions)))
    return [(date(2020, 1, 1) + timedelta(days=number)).isoformat() for number in range(days)], regions


def fill(store: SqlRepository, database: str, table: str, partitions: int) -> int:
    """Fill a table with the keys KEYS and no partitions, and return the number of partitions.

    The first partition is created by the usual call; the others are stored in the same form.
    """
    days, regions = days_and_regions(partitions)
    values = [days, [str(hour) for hour in range(HOURS)], regions]
    keys = [MetastoreColumn(name=name, type=kind) for name, kind in KEYS]

    def first(transaction) -> tuple[int, int]:  # type: ignore[no-untyped-def]
        stored = transaction.tables.find("hive", database, table, for_update=True)
        chosen = tuple(each[0] for each in values)
        storage = StorageDescriptor(
            columns=stored.value.storage.columns,
            location=f"{stored.value.location}/{partition_name(keys, chosen)}",
            input_format=stored.value.storage.input_format,
            output_format=stored.value.storage.output_format,
            serde=stored.value.storage.serde,
            parameters={},
        )
        partition = MetastorePartition(values=chosen, create_time=1_700_000_000, storage=storage)
        transaction.partitions.add(stored.id, [(partition_name(keys, chosen), partition)])
        connection = transaction.partitions._connection
        row = connection.execute(
            text(
                "SELECT p.set_id, p.storage_id FROM partitions p JOIN partition_sets s ON s.id = p.set_id "
                "WHERE s.table_id = :table_id"
            ),
            {"table_id": stored.id},
        ).one()
        connection.execute(text("DELETE FROM partitions WHERE set_id = :set_id"), {"set_id": row.set_id})
        return row.set_id, row.storage_id

    set_id, storage_id = store.write(first)
    with store.engine.execution_options(interbed_write=True).connect() as connection, connection.begin():
        for number, key in enumerate(keys):
            connection.execute(text(f"CREATE TEMPORARY TABLE fill_{number} (part TEXT, form TEXT)"))
            connection.execute(
                text(f"INSERT INTO fill_{number} (part, form) VALUES (:part, :form)"), _parts(key, values[number])
            )
        made = connection.execute(
            text(
                "INSERT INTO partitions (set_id, storage_id, name, key_0, key_1, key_2, create_time, "
                "last_access_time, parameters) "
                "SELECT :set_id, :storage_id, a.part || '/' || b.part || '/' || c.part, a.form, b.form, c.form, "
                "1700000000, 0, :parameters FROM fill_0 a CROSS JOIN fill_1 b CROSS JOIN fill_2 c"
            ),
            {"set_id": set_id, "storage_id": storage_id, "parameters": _PARAMETERS},
        ).rowcount
        for number in range(len(keys)):
            connection.execute(text(f"DROP TABLE fill_{number}"))
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # Autovacuum would do so soon after; the test does not wait for it.
        if connection.dialect.name == "postgresql":
            connection.execute(text("ANALYZE partitions"))
    return made


def _parts(key: MetastoreColumn, values: Sequence[str]) -> list[dict[str, str]]:
    kind = kind_of_type(key.type)
    return [{"part": partition_name([key], [value]), "form": search_form(kind, value)} for value in values]
