"""Random sequences of calls about databases, tables, views, functions and configuration values."""

import copy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.differential import strategies as some
from tests.catalog.differential.machine import ComparingMachine
from tests.catalog.differential.servers import CallAnswer, ComparedServer


def changed(table: Any, change: str, value: Any) -> Any:
    """Return the table with one change, as a client sends it after a read."""
    table = copy.deepcopy(table)
    match change:
        case "nothing":
            pass
        case "name":
            table.tableName = value
        case "database":
            table.dbName = value
        case "parameter":
            table.parameters = {**(table.parameters or {}), "k": value}
        case "no parameters":
            table.parameters = {}
        case "columns" if table.sd is not None:
            table.sd.cols = [*(table.sd.cols or []), ttypes.FieldSchema(name=value, type="int")]
        case "fewer columns" if table.sd is not None:
            table.sd.cols = (table.sd.cols or [])[1:]
        case "column type" if table.sd is not None:
            table.sd.cols = [ttypes.FieldSchema(name=c.name, type="double", comment="n") for c in table.sd.cols or []]
        case "location" if table.sd is not None:
            table.sd.location = value
        case "type":
            table.tableType = value
        case "keys":
            table.partitionKeys = [ttypes.FieldSchema(name="p", type=value)]
        case "owner":
            table.owner = value
    return table


CHANGES = st.one_of(
    st.just(("nothing", None)),
    st.tuples(st.just("name"), some.TABLES),
    st.tuples(st.just("name"), st.sampled_from(["t2", "t3", "T1"])),
    st.tuples(st.just("database"), some.DATABASES),
    st.tuples(st.just("parameter"), st.sampled_from(["v", "w", ""])),
    st.just(("no parameters", None)),
    st.tuples(st.just("columns"), some.COLUMN_NAMES),
    st.just(("fewer columns", None)),
    st.just(("column type", None)),
    # Without a location, Java loses the location of the table (README.md).
    st.tuples(st.just("location"), some.LOCATIONS.filter(bool)),
    st.tuples(st.just("type"), st.sampled_from(["EXTERNAL_TABLE", "MANAGED_TABLE", "VIRTUAL_VIEW"])),
    st.tuples(st.just("keys"), st.sampled_from(["string", "int"])),
    st.tuples(st.just("owner"), st.sampled_from(["you", None])),
)


class TablesMachine(ComparingMachine):
    """Random sequences of calls about databases, tables and functions."""

    @initialize()
    def a_database(self) -> None:
        self.call("create_database", ttypes.Database(name="d1", parameters={}))

    @rule(database=some.databases())
    def create_database(self, database: Any) -> None:
        self.call("create_database", database)

    @rule(name=st.sampled_from(["d1", "D1", "d2"]), parameters=some.PARAMETERS, owner=st.sampled_from([None, "you"]))
    def alter_database(self, name: str, parameters: dict[str, str] | None, owner: str | None) -> None:
        # Java keeps description and location, and ignores an unknown database or another name; interbed does as Hive 4
        # (README.md).
        def arguments(server: ComparedServer) -> tuple[Any, ...] | None:
            found = server.raw("get_database", (name,))
            if not isinstance(found, CallAnswer):
                return None
            database = copy.deepcopy(found.value)
            database.parameters = parameters
            database.ownerName = owner
            return (name, database)

        self.call_each("alter_database", arguments, "as read")

    @rule(name=some.DATABASES, delete=st.booleans(), cascade=st.booleans())
    def drop_database(self, name: str, delete: bool, cascade: bool) -> None:
        self.call("drop_database", name, delete, cascade)

    @rule(name=some.DATABASES, pattern=some.PATTERNS)
    def read_databases(self, name: str, pattern: str) -> None:
        self.call("get_database", name)
        self.call("get_databases", pattern)

    @rule(table=some.tables())
    def create_table(self, table: Any) -> None:
        self.call("create_table", table)

    @rule(table=some.tables(name=some.KNOWN_TABLES, database=st.just("d1")), context=some.CONTEXTS)
    def create_table_with_context(self, table: Any, context: Any) -> None:
        self.call("create_table_with_environment_context", table, context)

    @rule(database=some.DATABASES, name=some.TABLES)
    def get_table(self, database: str, name: str) -> None:
        self.call("get_table", database, name)

    @rule(database=some.DATABASES, name=some.TABLES)
    def get_columns(self, database: str, name: str) -> None:
        self.call("get_fields", database, name)
        self.call("get_schema", database, name)

    @rule(database=some.DATABASES, pattern=some.PATTERNS, kind=st.sampled_from(["MANAGED_TABLE", "VIRTUAL_VIEW", "x"]))
    def get_names(self, database: str, pattern: str, kind: str) -> None:
        self.call("get_all_tables", database)
        self.call("get_tables", database, pattern)
        self.call("get_tables_by_type", database, pattern, kind)

    @rule(database=some.DATABASES, names=st.lists(some.TABLES, max_size=4))
    def get_table_objects(self, database: str, names: list[str]) -> None:
        self.call("get_table_objects_by_name", database, names)

    @rule(
        databases=some.PATTERNS,
        names=some.PATTERNS,
        types=st.sampled_from([[], ["MANAGED_TABLE"], ["VIRTUAL_VIEW", "EXTERNAL_TABLE"]]),
    )
    def get_table_meta(self, databases: str, names: str, types: list[str]) -> None:
        self.call("get_table_meta", databases, names, types)

    @rule(database=st.sampled_from(["d1", "d2"]), name=some.KNOWN_TABLES, change=CHANGES, context=some.CONTEXTS)
    def alter_table_as_read(self, database: str, name: str, change: tuple[str, Any], context: Any) -> None:
        def arguments(server: ComparedServer) -> tuple[Any, ...] | None:
            found = server.raw("get_table", (database, name))
            if not isinstance(found, CallAnswer):
                return None
            return (database, name, changed(found.value, *change), context)

        if self.call_each("alter_table_with_environment_context", arguments, repr(change)):
            self.call("get_table", database, name)

    @rule(database=some.DATABASES, name=some.TABLES, table=some.tables(), context=some.CONTEXTS)
    def alter_table(self, database: str, name: str, table: Any, context: Any) -> None:
        if self.call("alter_table_with_environment_context", database, name, table, context):
            self.call("get_table", table.dbName, table.tableName)

    @rule(database=some.DATABASES, name=some.TABLES, table=some.tables(), cascade=st.booleans())
    def alter_table_plainly(self, database: str, name: str, table: Any, cascade: bool) -> None:
        self.call("alter_table", database, name, table)
        self.call("alter_table_with_cascade", database, name, table, cascade)

    @rule(database=some.DATABASES, name=some.TABLES, delete=st.booleans())
    def drop_table(self, database: str, name: str, delete: bool) -> None:
        self.call("drop_table", database, name, delete)

    @rule(database=some.DATABASES, name=some.KNOWN_TABLES, delete=st.booleans(), context=some.CONTEXTS)
    def drop_table_with_context(self, database: str, name: str, delete: bool, context: Any) -> None:
        self.call("drop_table_with_environment_context", database, name, delete, context)

    @rule(database=st.just("d1"), name=some.KNOWN_TABLES, file=st.sampled_from(["data", "sub/data"]))
    def write_a_file(self, database: str, name: str, file: str) -> None:
        def write(server: ComparedServer) -> None:
            found = server.raw("get_table", (database, name))
            if isinstance(found, CallAnswer) and found.value.sd is not None and found.value.sd.location:
                path = server.local(found.value.sd.location) / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("1")

        self.change_files(f"a file {file} in {database}.{name}", write)

    @rule(database=some.DATABASES, name=some.NEW_FUNCTIONS, owner_type=st.sampled_from([1, 2]))
    def create_function(self, database: str, name: str, owner_type: int) -> None:
        self.call("create_function", function(database, name, owner_type))

    @rule(database=some.DATABASES, name=some.FUNCTIONS, to=some.NEW_FUNCTIONS)
    def alter_function(self, database: str, name: str, to: str) -> None:
        self.call("alter_function", database, name, function(database, to, 1))

    @rule(database=some.DATABASES, name=some.FUNCTIONS)
    def drop_function(self, database: str, name: str) -> None:
        self.call("drop_function", database, name)

    @rule(database=some.DATABASES, name=some.FUNCTIONS, pattern=some.PATTERNS)
    def read_functions(self, database: str, name: str, pattern: str) -> None:
        self.call("get_function", database, name)
        self.call("get_functions", database, pattern)
        self.call("get_all_functions")

    @rule(
        name=st.sampled_from(
            [
                *("hive.metastore.try.direct.sql", "hive.exec.default.partition.name", "hive.no.such.key"),
                *("hive.metastore.client.socket.timeout", "javax.jdo.option.ConnectionPassword", "hive.metastore.uris"),
                *("", "hive.metastore.partition.name.whitelist.pattern", "mapred.x", "hdfs.y", "some.key"),
            ]
        ),
        default=st.sampled_from(["", "fallback"]),
    )
    def get_config_value(self, name: str, default: str) -> None:
        self.call("get_config_value", name, default)


def function(database: str, name: str, owner_type: int) -> Any:
    """Return a function. All have the same resources, because Java's alter_function does not change
    them (README.md).
    """
    return ttypes.Function(
        functionName=name,
        dbName=database,
        className="org.example.F",
        ownerName="me",
        ownerType=owner_type,
        createTime=3,
        functionType=1,
        resourceUris=[ttypes.ResourceUri(resourceType=1, uri="file:/x.jar")],
    )
