"""Every type of PostgreSQL's catalog becomes a column, or is refused before a run begins."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.tables.source_tables import TableNames
from interbed.storage.base.errors import InvalidInputError
from tests.ingest.shop import lake, rows_of
from tests.ingest.sources.postgres.database import Database
from tests.support.tally import Tally

EXTENSIONS = ("citext", "hstore", "ltree", "postgis", "vector")
OWN_TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'very happy')",
    "CREATE DOMAIN amount AS numeric(8, 3)",
    "CREATE DOMAIN amounts AS amount[]",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE TYPE moods AS RANGE (subtype = mood)",
)
SAMPLES: Mapping[str, str] = {
    "boolean": "true",
    "bytea": r"\x00ff",
    '"char"': "x",
    "name": "n",
    "bigint": "5",
    "smallint": "5",
    "integer": "5",
    "oid": "5",
    "int2vector": "1 2 3",
    "oidvector": "1 2 3",
    "text": 'a "b", {c}\\',
    "character": "x",
    "character varying": "x y",
    "citext": "Ab",
    "ltree": "a.b",
    "lquery": "a.*",
    "ltxtquery": "a & b",
    "hstore": '"a"=>"1", "b"=>NULL',
    "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "vector": "[1,2.5]",
    "halfvec": "[1,2.5]",
    "sparsevec": "{1:1.5,3:2}/5",
    "geometry": "POINT(1 2)",
    "geography": "POINT(1 2)",
    "mood": "very happy",
    "amount": "1.5",
    "amounts": "{1.5,NULL}",
    "pair": '(1,"x y")',
    "moods": '[sad,"very happy")',
    "moods_multirange": '{[sad,"very happy")}',
    "regproc": "now",
    "regprocedure": "now()",
    "regoper": "pg_catalog.||/",
    "regoperator": "+(integer,integer)",
    "regclass": "pg_class",
    "regtype": "integer",
    "regconfig": "english",
    "regdictionary": "simple",
    "regnamespace": "public",
    "regrole": "postgres",
    "regcollation": '"C"',
    "tid": "(1,2)",
    "xid": "5",
    "xid8": "5",
    "cid": "5",
    "json": '{"a":  1}',
    "jsonb": '{"a": 1}',
    "jsonpath": '$."a"',
    "xml": "<a/>",
    "point": "(1,2)",
    "lseg": "[(1,2),(3,4)]",
    "path": "((1,2),(3,4))",
    "box": "(3,4),(1,2)",
    "polygon": "((1,2),(3,4))",
    "line": "{1,2,3}",
    "circle": "<(1,2),3>",
    "cidr": "10.0.0.0/8",
    "inet": "10.0.0.1",
    "macaddr": "08:00:2b:01:02:03",
    "macaddr8": "08:00:2b:01:02:03:04:05",
    "money": "1.50",
    "real": "0.5",
    "double precision": "0.5",
    "numeric": "1.50",
    "aclitem": "postgres=r/postgres",
    "date": "2024-01-31",
    "time without time zone": "10:20:30.123456",
    "time with time zone": "10:20:30+02",
    "timestamp without time zone": "2024-01-31 10:20:30",
    "timestamp with time zone": "2024-01-31 10:20:30+00",
    "interval": "1 year 2 days",
    "bit": "1",
    "bit varying": "101",
    "refcursor": "c",
    "txid_snapshot": "10:20:10,14",
    "pg_snapshot": "10:20:10,14",
    "pg_lsn": "16/B374D848",
    "tsvector": "'a':1 'b':2",
    "tsquery": "'a' & 'b'",
    "int4range": "[1,5)",
    "int8range": "[1,5)",
    "numrange": "[1,5)",
    "tsrange": '["2024-01-01 00:00:00","2024-01-02 00:00:00")',
    "tstzrange": '["2024-01-01 00:00:00+00","2024-01-02 00:00:00+00")',
    "daterange": "[2024-01-01,2024-01-02)",
    "int4multirange": "{[1,3),[5,7)}",
    "int8multirange": "{[1,3),[5,7)}",
    "nummultirange": "{[1,3),[5,7)}",
    "tsmultirange": '{["2024-01-01 00:00:00","2024-01-02 00:00:00")}',
    "tstzmultirange": '{["2024-01-01 00:00:00+00","2024-01-02 00:00:00+00")}',
    "datemultirange": "{[2024-01-01,2024-01-02)}",
}
WITHOUT_INPUT = (
    *("pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "gtsvector"),
    *("pg_brin_bloom_summary", "pg_brin_minmax_multi_summary", "ghstore", "ltree_gist", "box2df", "gidx"),
)
"""Types whose values can not be written."""
TYPES = """
    SELECT t.oid::int8, format_type(t.oid, NULL), t.typtype::text,
    CASE WHEN e.typarray = t.oid THEN format_type(e.oid, NULL) END
    FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_type e ON e.oid = t.typelem
    WHERE n.nspname IN ('pg_catalog', 'public')
    AND COALESCE((SELECT relkind FROM pg_class WHERE oid = t.typrelid), 'c') = 'c'
    AND COALESCE((SELECT relkind FROM pg_class WHERE oid = e.typrelid), 'c') = 'c'
    ORDER BY 1
"""
PSEUDO = ("cstring[]", "record[]")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake(tmp_path)


def columns_of(database: Database) -> dict[str, tuple[str, str | None]]:
    """Return a column for each type: its type, and that of its elements."""
    return {
        f"c{oid}": (name, element)
        for oid, name, kind, element in database.rows(TYPES)
        if kind != "p" and name not in PSEUDO
    }


def test_every_type_of_the_catalog_becomes_a_column(database: Database, catalog: Catalog, tally: Tally) -> None:
    available = {name for (name,) in database.rows("SELECT name FROM pg_available_extensions")}
    for extension in EXTENSIONS:
        if extension in available:
            database.execute(f"CREATE EXTENSION {extension}")
    database.execute(*OWN_TYPES)
    has_xml = "--with-libxml" in database.rows("SELECT setting FROM pg_config WHERE name = 'CONFIGURE'")[0][0]
    columns = columns_of(database)
    database.execute("CREATE TABLE every (id int PRIMARY KEY)", "CREATE PUBLICATION interbed FOR TABLE every")
    database.execute(f"ALTER TABLE every {', '.join(f'ADD {n} {kind}' for n, (kind, _) in columns.items())}")
    names, values = [], []
    for name, (kind, element) in columns.items():
        text = SAMPLES.get(element or kind)
        if text is None:
            assert (element or kind) in WITHOUT_INPUT, f"{kind} has no value here"
            continue
        quoted = "'" + text.replace("'", "''") + "'"
        if kind.startswith("xml") and not has_xml:
            # Without libxml the server has the type, but no values of it.
            continue
        names.append(name)
        values.append(f"ARRAY[{quoted}::{element}, NULL]::{kind}" if element else f"{quoted}::{kind}")
    insertion = f"INSERT INTO every (id, {', '.join(names)}) VALUES (%d, {', '.join(values)})"
    database.execute("INSERT INTO every (id) VALUES (0)", insertion % 1)
    database.read(catalog)
    database.execute("INSERT INTO every (id) VALUES (2)", insertion % 3)
    database.read(catalog)
    table = catalog.get_table("shop.every")
    nothing, first, empty, change = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert {v for row in (nothing, empty) for n, v in row.items() if n != "id"} == {None}
    assert {**change, "id": 1} == first
    for name in names:
        kind, element = columns[name]
        column = str(table.schema.by_name[name].type)
        assert column.startswith("ARRAY<") == (element is not None and not element.endswith("[]")) or element is None
        if column == "STRING" and kind not in ("time without time zone",):
            [(text,)] = database.rows(f"SELECT format('%s', {name}) FROM every WHERE id = 1")
            assert first[name] == text, kind
        elif column == "ARRAY<STRING>" and element != "time without time zone":
            element_text = "CASE WHEN e IS NOT NULL THEN format('%s', e) END"
            found = database.rows(f"SELECT {element_text} FROM every, unnest({name}) AS e WHERE id = 1")
            assert first[name] == [text for (text,) in found], kind
        else:
            assert first[name] is not None, kind
    tally("types of PostgreSQL's catalog as columns", len(columns))
    tally("of them with values, in first rows and in changes", len(names))


REFUSED = {
    "an array of two dimensions": (
        "id int PRIMARY KEY, v int[][]",
        r"its column 'v' is a integer\[\]\[\], an array of 2",
    ),
    "a domain of one": ("id int PRIMARY KEY, v matrix", "its column 'v' is a matrix, an array of 2"),
    "columns that differ by case": ('id int PRIMARY KEY, "ID" int', "'id' and 'ID' differ by case alone"),
    "a name of the format": ('id int PRIMARY KEY, "_KEY_id" int', "'_KEY_id' is reserved"),
    "a key that is an array": ("id int[] PRIMARY KEY", "'id', whose nested type can't be part of a key"),
    "a key that may be there twice": (
        "id int PRIMARY KEY DEFERRABLE",
        r"its primary key \('id'\) is DEFERRABLE: .*NOT DEFERRABLE",
    ),
    "a key that is not sent": (
        "n int, id int GENERATED ALWAYS AS (n * 2) STORED PRIMARY KEY",
        "its key has the generated column 'id'",
    ),
    "no columns": ("", "at least one column"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_table_that_cannot_be_ingested_is_named_at_the_start(database: Database, catalog: Catalog, kind: str) -> None:
    columns, reason = REFUSED[kind]
    database.execute("CREATE DOMAIN matrix AS int[][]", "CREATE TABLE good (id int PRIMARY KEY)")
    database.execute("INSERT INTO good VALUES (1)", f"CREATE TABLE odd ({columns})")
    if not columns or "DEFERRABLE" in columns:
        database.execute("ALTER TABLE odd REPLICA IDENTITY FULL")
    with pytest.raises(
        InvalidInputError, match=rf"public\.odd can't be taken: .*{reason}.* --excluding-tables, or by --skip-t"
    ):
        database.read(catalog)
    # No replication slot and no table were created for it.
    assert not database.rows("SELECT 1 FROM pg_publication")
    assert not database.rows(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{database.slot}'")
    names = TableNames(database="shop", databases=frozenset({"public"}), skipping="odd")
    database.read(catalog, names=names)
    assert catalog.list_tables("shop") == ["good"]
    # It may be published nevertheless, and change.
    if columns and "int[] PRIMARY" not in columns and "GENERATED" not in columns:
        database.execute("ALTER PUBLICATION interbed ADD TABLE odd", "INSERT INTO odd (id) VALUES (1)")
    database.execute("INSERT INTO good VALUES (2)")
    database.read(catalog, names=names)
    assert rows_of(catalog, "shop.good") == [{"id": 1}, {"id": 2}]
    assert catalog.list_tables("shop") == ["good"]
    excluding = TableNames(database="shop", databases=frozenset({"public"}), excluding=r"public\.odd")
    database.read(catalog, names=excluding)
    assert catalog.list_tables("shop") == ["good"]


def test_a_skipped_table_gets_its_rows_once_it_can_be_ingested(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE good (id int PRIMARY KEY)", "CREATE TABLE odd (id int PRIMARY KEY, v int[][])")
    database.execute("INSERT INTO odd VALUES (1)")
    database.execute("CREATE PUBLICATION interbed FOR TABLE good, odd")
    names = TableNames(database="shop", databases=frozenset({"public"}), skipping=".*")
    database.read(catalog, names=names)
    database.execute("INSERT INTO odd VALUES (2)", "INSERT INTO good VALUES (1)")
    database.read(catalog, names=names)
    assert catalog.list_tables("shop") == ["good"]
    database.execute("ALTER TABLE odd DROP COLUMN v", "INSERT INTO odd VALUES (3)")
    database.read(catalog, names=names)
    assert rows_of(catalog, "shop.odd") == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_columns_outside_of_the_publication_are_ignored(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE odd (id int PRIMARY KEY, v int[][])", "INSERT INTO odd VALUES (1)")
    database.execute("CREATE PUBLICATION interbed FOR TABLE odd (id)")
    database.read(catalog)
    assert rows_of(catalog, "shop.odd") == [{"id": 1}]


def test_generated_columns_are_named_at_the_start(
    database: Database, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    generated = "GENERATED ALWAYS AS (upper(n)) STORED"
    database.execute(
        f"CREATE TABLE t (id int PRIMARY KEY, n text, u text {generated})", "INSERT INTO t VALUES (1, 'a')"
    )
    for at in range(2):
        caplog.clear()
        database.read(catalog)
        [warning] = [r.getMessage() for r in caplog.records if "generated columns" in r.getMessage()]
        assert warning == "The table public.t gets no column 'u': PostgreSQL does not send generated columns"
        database.execute(f"UPDATE t SET n = 'b{at}'")
    database.read(catalog)
    assert rows_of(catalog, "shop.t") == [{"id": 1, "n": "b1"}]


def test_a_key_that_becomes_deferrable_ends_the_run(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    database.read(catalog)
    database.execute("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id) DEFERRABLE")
    database.execute("UPDATE t SET id = id + 1")
    with pytest.raises(InvalidInputError, match="is DEFERRABLE"):
        database.read(catalog)
    assert rows_of(catalog, "shop.t") == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]


def test_a_table_that_publication_would_make_unchangeable_may_be_skipped(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE good (id int PRIMARY KEY)", "CREATE TABLE log (n int)")
    database.read(catalog, names=TableNames(database="shop", databases=frozenset({"public"}), skipping="log"))
    assert database.rows("SELECT tablename FROM pg_publication_tables") == [("good",)]


def test_an_unsupported_table_name_is_refused_at_the_start(database: Database, catalog: Catalog) -> None:
    database.execute("CREATE TABLE good (id int PRIMARY KEY)", 'CREATE TABLE "a$b" (id int PRIMARY KEY)')
    with pytest.raises(InvalidInputError, match=r"public\.a\$b can't be taken"):
        database.read(catalog)
    names = TableNames(database="shop", databases=frozenset({"public"}), skipping=r"a\$b")
    database.read(catalog, names=names)
    assert catalog.list_tables("shop") == ["good"]
