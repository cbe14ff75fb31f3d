"""Java Paimon accepts and refuses the same options as interbed: at creation, by ALTER and as dynamic options.

Java finds many contradictions only when it writes or reads, while interbed refuses the table at creation. A table that
Java creates and interbed does not is therefore written, compacted and read before the results are compared.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.meta.schema.change import RemoveOption, RenameColumn, SetOption
from tests.storage.meta.schema.option_cases import CASES, COLUMNS, OptionCase
from tests.support.peers.interbed import InterbedTable, interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.peers.process import PeerError

ROW = [1, "p", 1, "+I", 1, 1, "1.0", True, 0, "AAAA", [1], [["k", 1]], [[1, 1]]]

# Each change of a table with BASE: the option, its new value (None to remove it).
BASE = {"bucket": "2", "ignore-delete": "true", "changelog-producer": "lookup", "compaction.size-ratio": "2"}
CHANGES: list[tuple[str, str | None]] = [
    ("merge-engine", "aggregation"),
    ("merge-engine", "first-row"),
    ("bucket", "4"),
    ("bucket", "-1"),
    ("bucket", None),
    ("bucket-key", "id"),
    ("bucket-function.type", "mod"),
    ("ignore-delete", "false"),
    ("ignore-delete", "true"),
    ("ignore-update-before", "true"),
    ("changelog-producer", "none"),
    ("changelog-producer", "input"),
    ("changelog-producer", "nope"),
    ("changelog-producer", None),
    ("deletion-vectors.enabled", "true"),
    ("deletion-vectors.enabled", "false"),
    ("deletion-vectors.modifiable", "true"),
    ("sequence.field", "a"),
    ("sequence.field", "nope"),
    ("fields.nope.ignore-retract", "true"),
    ("fields.a.ignore-retract", "true"),
    ("rowkind.field", "b"),
    ("force-lookup", "true"),
    ("streaming-read-overwrite", "true"),
    ("snapshot.num-retained.min", "0"),
    ("file.format", "orc"),
    ("file.format", "nope"),
    ("compaction.size-ratio", None),
    ("partial-update.remove-record-on-delete", "true"),
    ("index-file-in-data-file-dir", "true"),
    ("row-tracking.enabled", "true"),
]


def refusal(action: Callable[[], Any]) -> str | None:
    """Return the message with which Java or interbed refuses the action; None when it succeeds."""
    try:
        action()
    except (PeerError, InvalidInputError, NotSupportedError) as error:
        return str(error)
    return None


def use(table: JavaTable) -> None:
    """Write, compact and read the table, as its users do."""
    table.write([ROW])
    table.write([ROW])
    table.compact()
    table.read()


@pytest.mark.parametrize("about", list(dict.fromkeys(case.about for case in CASES)))
def test_java_refuses_the_same_tables(java_paimon: JavaPaimon, tmp_path: Path, about: str) -> None:
    differing: dict[str, str | None] = {}
    for number, case in enumerate(c for c in CASES if c.about == about):
        java = java_paimon.table(tmp_path, f"db.t{number}")
        refused = refusal(lambda case=case, java=java: create(java, case))  # type: ignore[misc]
        if case.refused is not None and refused is None:
            refused = refusal(lambda java=java: use(java))  # type: ignore[misc]
        if (refused is None) != (case.refused is None or case.java is not None):
            differing[case.name] = refused
    assert differing == {}


def create(table: JavaTable | InterbedTable, case: OptionCase) -> None:
    """Create the table of the case."""
    table.create(COLUMNS, primary_keys=case.keys, partition_keys=case.partitions, options=case.options)


@pytest.mark.parametrize("written", [False, True], ids=["empty", "written"])
def test_java_refuses_the_same_changes(java_paimon: JavaPaimon, tmp_path: Path, written: bool) -> None:
    differing: dict[tuple[str, str | None], str | None] = {}
    for number, (key, value) in enumerate(CHANGES):
        java, ours = java_paimon.table(tmp_path, f"db.j{number}"), interbed_table(tmp_path, f"db.i{number}")
        tables: tuple[JavaTable | InterbedTable, ...] = (java, ours)
        for table in tables:
            table.create(COLUMNS, primary_keys=["id"], options=BASE)
            if written:
                table.write([ROW])
        said = refusal(lambda key=key, value=value, java=java: java.alter(java_change(key, value)))  # type: ignore[misc]
        change = RemoveOption(key) if value is None else SetOption(key, value)
        interbeds_refusal = refusal(lambda change=change, ours=ours: ours.load().store.schemas.change([change]))  # type: ignore[misc]
        if (said is None) != (interbeds_refusal is None):
            differing[key, value] = interbeds_refusal or said
    assert differing == {}


def java_change(key: str, value: str | None) -> dict[str, str]:
    """Return the change in the form that the peer takes."""
    return {"op": "remove_option", "key": key} if value is None else {"op": "set_option", "key": key, "value": value}


def test_java_refuses_the_same_dynamic_options(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    java, ours = java_paimon.table(tmp_path, "db.t"), interbed_table(tmp_path, "db.t")
    java.create(COLUMNS, primary_keys=["id"], options=BASE)
    table = ours.load()
    differing: dict[tuple[str, str], str | None] = {}
    for key, value in CHANGES:
        if value is None:
            continue
        said = refusal(lambda key=key, value=value: java.with_options({key: value}))  # type: ignore[misc]
        interbeds_refusal = refusal(lambda key=key, value=value: table.copy({key: value}))  # type: ignore[misc]
        if (said is None) != (interbeds_refusal is None):
            differing[key, value] = interbeds_refusal or said
    # Java rescales by dynamic options for the number of buckets; interbed has `Table.rescale`.
    # A table with deletion vectors cannot be read without them.
    assert set(differing) == {("bucket", "4"), ("deletion-vectors.enabled", "false")}, differing


def test_java_renames_a_column_in_the_same_options(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    options = {
        "bucket": "2",
        "merge-engine": "partial-update",
        "sequence.field": "at,h",
        "fields.g.sequence-group": "a,b",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "listagg",
        "fields.b.list-agg-delimiter": ";",
        "fields.b.ignore-retract": "true",
    }
    java, ours = java_paimon.table(tmp_path, "db.j"), interbed_table(tmp_path, "db.i")
    tables: tuple[JavaTable | InterbedTable, ...] = (java, ours)
    for table in tables:
        table.create(COLUMNS, primary_keys=["id"], options=options)
    schemas = ours.load().store.schemas
    for name in ("id", "at", "h", "g", "a", "b"):
        java.alter({"op": "rename", "path": [name], "to": f"{name}2"})
        schemas.change([RenameColumn(name, f"{name}2")])
        latest = schemas.latest()
        assert latest is not None
        theirs = {key: value for key, value in java.schema()["options"].items() if key != "path"}
        assert latest.options == theirs
