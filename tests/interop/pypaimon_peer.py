"""Server for pypaimon and pypaimon-rust on a pipe: one JSON command per line on stdin, one JSON answer per line on
stdout.

It runs in the environment of pypaimon-requirements.txt; tests/support/peers/pypaimon.py is its client and documents the
commands. Tables are passed as Arrow IPC files. The engine is `python` (pypaimon, without native code) or `rust`
(pypaimon-rust through its own API).
"""

import json
import sys
import traceback
from enum import Enum
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.common.options.config_option import ConfigOption
from pypaimon.common.options.core_options import CoreOptions
from pypaimon.schema.data_types import AtomicInteger, DataField, DataTypeParser, reassign_field_id
from pypaimon.schema.schema_change import SchemaChange
from pypaimon.table.instant import Instant
from pypaimon_rust.datafusion import PaimonCatalog, SQLContext

from tests.support.peers.json import from_json_values, parse_type

# Names of comparisons: in commands, in pypaimon's predicate builder, in pypaimon-rust's filter.
COMPARISONS = {
    "=": ("equal", "equal"),
    "<>": ("not_equal", "notEqual"),
    "<": ("less_than", "lessThan"),
    "<=": ("less_or_equal", "lessOrEqual"),
    ">": ("greater_than", "greaterThan"),
    ">=": ("greater_or_equal", "greaterOrEqual"),
    "startswith": ("startswith", "startsWith"),
    "is null": ("is_null", "isNull"),
    "is not null": ("is_not_null", "isNotNull"),
    "in": ("is_in", "in"),
    "not in": ("is_not_in", "notIn"),
}


def main() -> None:
    """Answer commands until stdin ends."""
    answers = sys.stdout
    # Output that libraries print goes to stderr.
    sys.stdout = sys.stderr
    for line in sys.stdin:
        try:
            answer = {"ok": execute(json.loads(line))}
        except BaseException as error:  # noqa: BLE001 - a panic of pypaimon-rust is no Exception, and is an answer too
            traceback.print_exc()
            answer = {"error": {"class": type(error).__name__, "message": str(error)}}
        print(json.dumps(answer), file=answers, flush=True)


def execute(command: dict[str, Any]) -> Any:
    """Execute a command and return its answer."""
    return {
        "ping": lambda c: {"pyarrow": pa.__version__},
        "option_keys": lambda c: option_keys(),
        "create_table": create_table,
        "schema": lambda c: table_schema(open_table(c)),
        "write": lambda c: rust_write(c) if c["engine"] == "rust" else write(c),
        "read": lambda c: rust_read(c) if c["engine"] == "rust" else read(c),
        "update": update,
        "plan": plan,
        "catalog_call": catalog_call,
        "alter": alter,
        "rollback": rollback,
        "rust_sql": rust_sql,
    }[command["command"]](command)


def option_keys() -> list[list[str | None]]:
    """Return key and default of each option of tables."""
    found = (member for member in vars(CoreOptions).values() if isinstance(member, ConfigOption))
    return [[o.key(), _text(o.default_value()) if o.has_default_value() else None] for o in found]


def _text(value: Any) -> str:
    return str(value.value if isinstance(value, Enum) else value)


def open_catalog(command: dict[str, Any]) -> Any:
    """Open pypaimon's catalog; a new one each time, because other processes change the tables.

    An address instead of a warehouse is that of a REST catalog, with the name of its warehouse and a token, each behind
    a `#`.
    """
    warehouse = command["warehouse"]
    return CatalogFactory.create(catalog_options(warehouse))


def catalog_options(warehouse: str) -> dict[str, str]:
    """Return the options of a catalog in a directory, or behind an address."""
    if not warehouse.startswith("http://"):
        return {"warehouse": warehouse}
    uri, name, token = [*warehouse.split("#"), "", ""][:3]
    options = {"metastore": "rest", "uri": uri, "warehouse": name or "hive"}
    return {**options, "token.provider": "bear", "token": token or "none"}


def rust_sql(command: dict[str, Any]) -> list[list[Any]]:
    """Run SQL by pypaimon-rust in the catalog `lake`, and return the rows with numbers, texts and nulls."""
    context = SQLContext()
    context.register_catalog("lake", catalog_options(command["warehouse"]))
    return [list(row.values()) for batch in context.sql(command["sql"]) for row in batch.to_pylist()]


def catalog_call(command: dict[str, Any]) -> Any:
    """Call a method of the catalog; its answer is JSON, or the text of another value."""
    answer = getattr(open_catalog(command), command["method"])(*command["arguments"])
    elements = getattr(answer, "elements", answer)
    try:
        return json.loads(json.dumps(elements, default=vars))
    except TypeError:
        return str(elements)


def alter(command: dict[str, Any]) -> None:
    """Change a schema; a change is the name of a method of SchemaChange with its arguments, types as text."""
    changes = []
    for name, *arguments in command["changes"]:
        if name in ("add_column", "update_column_type"):
            arguments[1] = DataTypeParser.parse_data_type(arguments[1])
        changes.append(getattr(SchemaChange, name)(*arguments))
    open_catalog(command).alter_table(command["table"], changes, False)


def rollback(command: dict[str, Any]) -> None:
    """Roll a table back to a snapshot by its id, or to a tag by its name."""
    version = command["version"]
    instant = Instant.snapshot(version) if isinstance(version, int) else Instant.tag(version)
    open_catalog(command).rollback_to(command["table"], instant)


def open_table(command: dict[str, Any]) -> Any:
    """Open pypaimon's table with the command's options."""
    table = open_catalog(command).get_table(command["table"])
    options = dict(command.get("options") or {})
    if command.get("snapshot_id") is not None:
        options["scan.snapshot-id"] = str(command["snapshot_id"])
    return table.copy(options) if options else table


def table_schema(table: Any) -> dict[str, Any]:
    """Return the schema as its file has it."""
    schema = table.table_schema
    return {
        "id": schema.id,
        "fields": [field.to_dict() for field in schema.fields],
        "primaryKeys": schema.primary_keys,
        "partitionKeys": schema.partition_keys,
        "options": schema.options,
    }


def create_table(command: dict[str, Any]) -> dict[str, Any]:
    """Create a table from Paimon types, which are more specific than Arrow's."""
    catalog = open_catalog(command)
    catalog.create_database(command["table"].split(".")[0], True)
    ids = AtomicInteger(-1)
    fields = []
    for column in command["columns"]:
        of = DataTypeParser.parse_data_type(column["type"])
        top = ids.increment_and_get()
        fields.append(DataField(top, column["name"], reassign_field_id(of, ids)))
    schema = Schema(fields, command["partition_keys"], command["primary_keys"], command["options"])
    catalog.create_table(command["table"], schema, False)
    return table_schema(open_table(command))


def read_arrow(path: str) -> pa.Table:
    """Read the table in an Arrow IPC file."""
    with pa.OSFile(path, "r") as file:
        return pa.ipc.open_file(file).read_all()


def fitted(data: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table under the engine's schema, which may differ in nullability and names inside lists."""
    if data.schema.types == schema.types:
        # A cast refuses a null struct whose fields are NOT NULL.
        return pa.Table.from_arrays(data.columns, schema=schema)
    return data.cast(schema)


def write_arrow(path: str, table: pa.Table) -> int:
    """Write an Arrow IPC file; return the number of rows."""
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return table.num_rows


def write(command: dict[str, Any]) -> None:
    """Make one commit by pypaimon."""
    table = open_table(command)
    stream = command["commit_identifier"] is not None
    builder = table.new_stream_write_builder() if stream else table.new_batch_write_builder()
    if command["commit_user"] is not None:
        builder.commit_user = command["commit_user"]
    if command["overwrite"] is not None:
        builder.overwrite(command["overwrite"])
    writer = builder.new_write()
    commit = builder.new_commit()
    identifier = [command["commit_identifier"]] if stream else []
    try:
        data = read_arrow(command["data"])
        writer.write_arrow(fitted(data, writer.table_pyarrow_schema))
        messages = writer.prepare_commit(*identifier)
        commit.commit(messages, *identifier)
    finally:
        writer.close()
        commit.close()


def update(command: dict[str, Any]) -> None:
    """Change columns of rows by their ids, or delete rows by their ids, in one commit by pypaimon."""
    builder = open_table(command).new_batch_write_builder()
    change = builder.new_update()
    if command["deleted"] is not None:
        messages = change.delete_by_row_id(command["deleted"])
    else:
        data = read_arrow(command["data"])
        change.with_update_type([name for name in data.column_names if name != "_ROW_ID"])
        messages = change.update_by_arrow_with_row_id(data)
    commit = builder.new_commit()
    commit.commit(messages)
    commit.close()


def read(command: dict[str, Any]) -> int:
    """Read by pypaimon into an Arrow IPC file."""
    table = open_table(command)
    builder = table.new_read_builder()
    if command["filter"] is not None:
        builder = builder.with_filter(predicate(command["filter"], table, builder.new_predicate_builder()))
    if command["columns"] is not None:
        builder = builder.with_projection(command["columns"])
    splits = builder.new_scan().plan().splits()
    return write_arrow(command["out"], builder.new_read().to_arrow(splits))


def literals(node: dict[str, Any], table: Any) -> list[Any]:
    """Return the literals of a comparison as Python values."""
    if "value" not in node:
        return []
    field = next(field for field in table.table_schema.fields if field.name == node["field"])
    values = node["value"] if node["op"] in ("in", "not in") else [node["value"]]
    return from_json_values(values, parse_type(field.type.to_dict())).to_pylist()


def predicate(node: dict[str, Any], table: Any, builder: Any) -> Any:
    """Build pypaimon's predicate for the filter of a command."""
    if node["op"] in ("and", "or"):
        join = builder.and_predicates if node["op"] == "and" else builder.or_predicates
        return join([predicate(arg, table, builder) for arg in node["args"]])
    values = literals(node, table)
    if node["op"] in ("in", "not in"):
        values = [values]
    return getattr(builder, COMPARISONS[node["op"]][0])(node["field"], *values)


def rust_filter(node: dict[str, Any], table: Any) -> dict[str, Any]:
    """Build pypaimon-rust's predicate for the filter of a command."""
    if node["op"] in ("and", "or"):
        return {"method": node["op"], "children": [rust_filter(arg, table) for arg in node["args"]]}
    return {"method": COMPARISONS[node["op"]][1], "field": node["field"], "literals": literals(node, table)}


def rust_table(command: dict[str, Any]) -> Any:
    """Open the table with pypaimon-rust."""
    return PaimonCatalog(catalog_options(command["warehouse"])).get_table(tuple(command["table"].split(".")))


def rust_write(command: dict[str, Any]) -> None:
    """Make one commit by pypaimon-rust."""
    schema = open_table(command).new_batch_write_builder().new_write().table_pyarrow_schema
    table = rust_table(command)
    stream = command["commit_identifier"] is not None
    builder = table.new_stream_write_builder() if stream else table.new_batch_write_builder()
    if stream and command["commit_user"] is not None:
        builder = builder.with_commit_user(command["commit_user"])
    if command["overwrite"] is not None:
        builder = builder.with_overwrite(command["overwrite"])
    writer = builder.new_write()
    commit = builder.new_commit()
    for batch in fitted(read_arrow(command["data"]), schema).to_batches():
        writer.write_arrow(batch)
    if stream:
        commit.commit(command["commit_identifier"], writer.prepare_commit(True, command["commit_identifier"]))
    else:
        commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def rust_read(command: dict[str, Any]) -> int:
    """Read by pypaimon-rust into an Arrow IPC file."""
    options = dict(command.get("options") or {})
    if command["snapshot_id"] is not None:
        options["scan.snapshot-id"] = str(command["snapshot_id"])
    table = open_table(command)
    builder = rust_table(command).new_read_builder(options)
    if command["filter"] is not None:
        builder = builder.with_filter(rust_filter(command["filter"], table))
    if command["columns"] is not None:
        builder = builder.with_projection(command["columns"])
    splits = builder.new_scan().plan().splits()
    batches = builder.new_read().read(splits)
    if batches:
        return write_arrow(command["out"], pa.Table.from_batches(batches))
    columns = command["columns"] or table.field_names
    reader = table.new_read_builder().with_projection(columns).new_read()
    return write_arrow(command["out"], reader.to_arrow([]))


def plan(command: dict[str, Any]) -> list[dict[str, Any]]:
    """Return pypaimon's splits and their files."""
    splits = open_table(command).new_read_builder().new_scan().plan().splits()
    return [
        {
            "bucket": split.bucket,
            "raw_convertible": split.raw_convertible,
            "files": [
                {"file_name": file.file_name, "level": file.level, "row_count": file.row_count} for file in split.files
            ],
        }
        for split in splits
    ]


if __name__ == "__main__":
    main()
