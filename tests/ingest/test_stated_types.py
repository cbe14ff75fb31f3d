"""Columns whose stated type changes at the source: values are exact for all boundaries of batches and runs."""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.messages import BadMessageError
from interbed.ingest.formats.canal_json import CanalJson
from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import IngestSettings
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.base.types.arrow import type_to_arrow
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import job, lake, rows_of
from tests.support.tally import Tally

KINDS: dict[str, dict[str, Any]] = {
    "float": {"type": "float"},
    "double": {"type": "double"},
    "local": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    "zoned": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
    "floats": {"type": "array", "items": {"type": "float", "optional": True}},
    "doubles": {"type": "array", "items": {"type": "double", "optional": True}},
}

SOURCE = {"db": "shop", "schema": "public", "table": "t"}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake(tmp_path)


def message(number: int, kind: str, value: object) -> tuple[object, object]:
    row = {
        "type": "struct",
        "optional": True,
        "fields": [{"field": "id", "type": "int32"}, {"field": "v", "optional": True, **KINDS[kind]}],
    }
    envelope = {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {"field": "source", "type": "struct", "fields": [{"field": name, "type": "string"} for name in SOURCE]},
            {"field": "op", "type": "string"},
        ],
    }
    payload = {
        "before": None,
        "after": {"id": number, "v": value},
        "op": "c",
        "source": SOURCE,
    }
    key = {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}
    return ({"schema": key, "payload": {"id": number}}, {"schema": envelope, "payload": payload})


@pytest.mark.parametrize("is_list", [False, True], ids=["numbers", "lists"])
def test_a_float_that_becomes_a_double_is_widened_for_all_batch_boundaries(
    tmp_path: Path, is_list: bool, tally: Tally
) -> None:
    sent: list[tuple[str, Any]] = [("float", 0.5), ("double", 0.25), ("double", 0.1), ("double", 1e300)]
    if is_list:
        sent = [(f"{kind}s", [value, None]) for kind, value in sent]
    messages = [message(number, kind, value) for number, (kind, value) in enumerate(sent)]
    cuts = [c for size in range(len(sent)) for c in itertools.combinations(range(1, len(sent)), size)]
    for number, cut in enumerate(cuts):
        catalog = lake(tmp_path / str(number))
        source = MemorySource({"t": [[]]})
        for start, end in itertools.pairwise((0, *cut, len(sent))):
            source.topics["t"][0] += messages[start:end]
            job(catalog, source).run()
        table = catalog.get_table("shop.t")
        kind = type_to_arrow(table.schema.by_name["v"].type)
        assert (kind.field(0).type if is_list else kind) == pa.float64()
        rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
        assert [row["v"] for row in rows] == [value for _, value in sent]
    tally("ways to cut messages into runs", len(cuts))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("local", 0), ("zoned", "2024-01-01T00:00:00+05:00")),
        (("zoned", "2024-01-01T00:00:00Z"), ("local", 1_704_067_200_000_000)),
    ],
    ids=["local to zoned", "zoned to local"],
)
def test_a_time_that_gains_or_loses_its_zone_is_refused(
    catalog: Catalog, before: tuple[str, Any], after: tuple[str, Any]
) -> None:
    source = MemorySource({"t": [[message(1, *before)]]})
    job(catalog, source).run()
    first = catalog.get_table("shop.t").scan().to_arrow()
    source.topics["t"][0].append(message(2, *after))
    with pytest.raises(SchemaMismatchError, match=r"column 'v' .*neither type holds all values of the other"):
        job(catalog, source).run()
    assert catalog.get_table("shop.t").scan().to_arrow().equals(first)


@pytest.mark.parametrize("value", [9_223_372_036_825_200_000, -9_223_372_036_832_400_000])
@pytest.mark.parametrize("unit", ["Micro", ""])
def test_an_infinite_timestamp_is_bad(catalog: Catalog, value: int, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "infinite", {"type": "int64", "name": f"io.debezium.time.{unit}Timestamp"})
    source = MemorySource({"t": [[message(1, "infinite", 0), message(2, "infinite", value // (1 if unit else 1000))]]})
    with pytest.raises(
        BadMessageError, match=r"offset 1 can't be taken: .*an infinite time cannot be stored in a table"
    ):
        job(catalog, source).run()


def test_a_column_that_an_update_of_canal_states_but_lacks_is_unsent(catalog: Catalog) -> None:
    def canal(kind: str, row: dict[str, str], old: dict[str, str] | None) -> tuple[object, object]:
        types = {"id": "int", "a": "int", "b": "int"}
        value = {"database": "shop", "table": "t", "type": kind, "isDdl": False, "mysqlType": types, "pkNames": ["id"]}
        return (None, {**value, "data": [row], "old": None if old is None else [old]})

    source = MemorySource({"t": [[canal("INSERT", {"id": "1", "a": "1", "b": "2"}, None)]]})

    def run() -> None:
        Ingestion(
            catalog,
            source,
            CanalJson,
            TableNames(database="shop"),
            TableSettings(options={"bucket": "1"}),
            IngestSettings(until_end=True),
        ).run()

    run()
    source.topics["t"][0].append(canal("UPDATE", {"id": "1", "a": "5"}, {"a": "1"}))
    with pytest.raises(BadMessageError, match="it lacks the column 'b'"):
        run()
    assert rows_of(catalog, "shop.t") == [{"id": 1, "a": 1, "b": 2}]
