"""Opaque handle of a loaded table, which the JVM keeps and sends with each call.

With it any planner and any worker can open the table without the catalog: it has the location, the schema and the
options of the file system. A commit uses the catalog again, for its lock.

A handle with the catalog's options stays on the driver. The handle for executors (`for_executors`) has no secrets of
the catalog: it has the options of the file system, and the present token of the table if the server has tokens for its
files.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from interbed.catalog.client.api import system_table
from interbed.catalog.client.identifier import SYSTEM_DATABASE, TableName
from interbed.catalog.client.options import (
    FILE_SYSTEM_PREFIXES,
    CatalogOptions,
    options_for_executors,
    options_of_files,
)
from interbed.spark_ext.handle.row_changes import RowsToCome, scanned_fields
from interbed.spark_ext.handle.session_options import BRANCH, without_pins
from interbed.storage.base.clock import now_millis
from interbed.storage.base.errors import (
    FileGoneError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
    SnapshotGoneError,
    SnapshotNotFoundError,
)
from interbed.storage.base.shown_text import is_secret
from interbed.storage.base.types.data_type import DataField
from interbed.storage.io.api import FileIO
from interbed.storage.meta.options.known.check import known_option
from interbed.storage.meta.options.log import KAFKA
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.read.guarded_scan import RowRules
from interbed.storage.table.opening import open_store
from interbed.storage.table.row_views import READ_OPTIMIZED, ReadOptimizedTable, RowTrackingTable
from interbed.storage.table.table import Table, load_table
from interbed.storage.views.changes import ChangeView
from interbed.storage.views.guarded_changes import GuardedChangeView
from interbed.storage.views.system.table import SystemTable

if TYPE_CHECKING:
    from interbed.catalog.client.rest.data_tokens import DataToken


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingInfo:
    """State of a staged table: whether it replaces a table, and its path if one was given."""

    replaces: bool
    path: str | None


_OF_COMMITS = "metadata.iceberg."
"""Prefix of options that only a commit uses, which the driver makes."""

NO_CATALOG = ""
"""The catalog's name in the handle of a table that was loaded by its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHandle:
    """A table at one version of its schema and, for reads, at one snapshot (None: it had none)."""

    catalog: str
    catalog_options: Mapping[str, str]
    database: str
    table: str
    location: str
    schema_json: str
    snapshot_id: int | None
    dynamic_options: Mapping[str, str] = field(default_factory=dict)
    staged: StagingInfo | None = None
    rows: RowsToCome | None = None
    """Schema of rows to be merged into the table's. `schema_json` is the merged one, which need not exist yet."""
    server_options: Mapping[str, str] = field(default_factory=dict)
    """Options of the file system that the server of the catalog adds to `catalog_options`."""
    tokens_of: str | None = None
    """The id of the table if the server of the catalog has tokens for its files, which the driver gets."""
    token: "DataToken | None" = field(default=None, repr=False)
    """In the handle for executors: the token that the driver has got for the files of the table."""
    snapshot_identity: str | None = None
    """The identity of the snapshot, by which it differs from another one with its id after a rollback."""
    kind_column: str | None = None
    """The column with the kinds of the rows to be written, which is no column of the table."""
    is_objects: bool = False
    """Whether this is an object table, whose files the driver lists."""
    is_format: bool = False
    """Whether this is a format table: format_tables.py opens it."""
    format_definition: str = ""
    """Of a format table: its definition as format_tables.py encodes it, if the schema does not say all of it."""
    partitions_elsewhere: tuple[str, ...] = ()
    """Of a format table: partitions that are not as their values say, as format_tables.py encodes them."""

    rules: RowRules | None = None
    """Row filters and masks for the reader of the table; None if none bind it, and no read applies any."""

    def to_bytes(self) -> bytes:
        """Encode the handle for the JVM."""
        return json.dumps(
            {
                "catalog": self.catalog,
                "catalogOptions": dict(self.catalog_options),
                "database": self.database,
                "table": self.table,
                "location": self.location,
                "schema": self.schema_json,
                "snapshot": self.snapshot_id,
                "options": dict(self.dynamic_options),
                "staged": None if self.staged is None else [self.staged.replaces, self.staged.path],
                "serverOptions": dict(self.server_options),
                "tokensOf": self.tokens_of,
                "token": None if self.token is None else self.token.to_json(),
                "kindColumn": self.kind_column,
                "identity": self.snapshot_identity,
                "format": self.is_format,
                "objects": self.is_objects,
                "definition": self.format_definition,
                "elsewhere": self.partitions_elsewhere,
                "rows": None if self.rows is None else [self.rows.schema_json, self.rows.case_sensitive],
                "rules": None if self.rules is None else [list(self.rules.filters), dict(self.rules.masks)],
            },
            separators=(",", ":"),
            sort_keys=True,
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "TableHandle":
        """Decode the handle of to_bytes. Raises InvalidInputError for other bytes."""
        try:
            value = json.loads(content)
            staged = value.get("staged")
            rows = value.get("rows")
            token = value.get("token")
            rules = value["rules"]
            return TableHandle(
                catalog=value["catalog"],
                catalog_options=value["catalogOptions"],
                database=value["database"],
                table=value["table"],
                location=value["location"],
                schema_json=value["schema"],
                snapshot_id=value["snapshot"],
                dynamic_options=value["options"],
                staged=None if staged is None else StagingInfo(replaces=staged[0], path=staged[1]),
                server_options=value.get("serverOptions", {}),
                tokens_of=value.get("tokensOf"),
                token=None if token is None else _token_of_json(token),
                kind_column=value.get("kindColumn"),
                snapshot_identity=value.get("identity"),
                is_format=value.get("format", False),
                is_objects=value.get("objects", False),
                format_definition=value.get("definition", ""),
                partitions_elsewhere=tuple(value.get("elsewhere", ())),
                rows=None if rows is None else RowsToCome(schema_json=rows[0], case_sensitive=rows[1]),
                rules=None if rules is None else RowRules(filters=rules[0], masks=rules[1]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a table handle: {error}") from error

    def for_executors(self) -> "TableHandle":
        """Return the handle for processes that read and write the files, without secrets of the catalog.

        Raises the errors of the catalog when the server does not give a token.
        """
        token = self.token
        if self.tokens_of is not None and token is None:
            # By use: most tables need no client of REST.
            from interbed.catalog.client.rest.data_tokens import token_of

            token = token_of(self.files_by_token(self.tokens_of))
        return replace(
            self,
            catalog_options=options_for_executors(self.catalog_options),
            server_options=options_of_files(self.server_options),
            schema_json=_without_secrets(self.schema_json),
            dynamic_options={k: v for k, v in self.dynamic_options.items() if not _stays(k)},
            token=token,
        )

    @property
    def renewed_after(self) -> int | None:
        """The time, in milliseconds since 1970, after which a stage gets a newer token; None without a token."""
        return None if self.token is None else self.token.renewal_millis(now_millis())

    @property
    def view(self) -> SystemTable | ChangeView | RowTrackingTable | None:
        """The system table of the handle; None for a table itself, and for a read-optimized table."""
        name = TableName.parse(f"{self.database}.{self.table}")
        view = None if name.system is None else system_table(self.open(), name.system)
        if isinstance(view, GuardedChangeView):
            raise NotSupportedError(
                f"'{view.name}' has row filters or column masks for you, and Spark's system tables do not keep to them."
            )
        return None if isinstance(view, ReadOptimizedTable) else view

    @property
    def is_computed(self) -> bool:
        """Whether the driver computes the rows: those of a system table of the catalog, and of an object table."""
        return self.is_objects or (self.database == SYSTEM_DATABASE and self.catalog != NO_CATALOG)

    @property
    def is_system(self) -> bool:
        """Whether this is a system table or an object table, which is read only."""
        return self.is_computed or self.is_read_optimized or self.view is not None

    def read_only(self) -> NotSupportedError:
        """Return the error for a write to a table that `is_system`."""
        kind = "object" if self.is_objects else "system"
        return NotSupportedError(f"The {kind} table '{self.database}.{self.table}' is read only.")

    @property
    def is_read_optimized(self) -> bool:
        """Whether this is a read-optimized table, which is read like a table."""
        return TableName.parse(f"{self.database}.{self.table}").system == READ_OPTIMIZED

    @property
    def fields(self) -> tuple[DataField, ...]:
        """Columns of the table or the system table."""
        view = self.view
        return self.schema.fields if view is None else tuple(view.fields)

    @property
    def hidden_fields(self) -> tuple[DataField, ...]:
        """Hidden columns of the table, none of a system table."""
        return () if self.is_computed or self.view is not None else scanned_fields(self.schema)

    @property
    def schema(self) -> TableSchema:
        """The schema at which the table was loaded."""
        return TableSchema.from_json(self.schema_json, source=f"the schema of {self.database}.{self.table}")

    def open(self) -> Table:
        """Open the table without its catalog, for planning, reading and writing, not for commits."""
        dynamic = self.dynamic_options if self.snapshot_id is None else without_pins(self.dynamic_options)
        options = {**self.file_system_options, **dynamic}
        if self.tokens_of is None:
            return load_table(self.location, schema_json=self.schema_json, options=options)
        files = self.files_by_token(self.tokens_of)
        return Table(self.table, open_store(self.location, files, schema=self.schema, dynamic_options=options))

    def changes_branch(self, before: "TableHandle") -> bool:
        """Return whether the handle's option `branch` chooses another branch than that of the handle before.

        Raises BranchNotFoundError for a missing branch, and NotSupportedError for one with other columns than the
        table, by whose columns statements are planned; InvalidOptionError if the table's name names another one.
        """
        branch = self.dynamic_options.get(BRANCH, MAIN_BRANCH)
        named = TableName.parse((self.database, self.table)).branch
        if named not in (None, branch):
            raise InvalidOptionError(
                f"The option '{BRANCH}' = '{branch}' contradicts the name `{self.table}`, which is that of another "
                "branch. Leave the option out, or name the table alone."
            )
        if branch == before.dynamic_options.get(BRANCH, MAIN_BRANCH):
            return False
        advice = f"Name `{self.table}$branch_{branch}` instead of giving the option '{BRANCH}'."
        if self.tokens_of is not None:
            name = f"{self.database}.{self.table}"
            raise NotSupportedError(f"In this catalog a branch of '{name}' is addressed by its name. {advice}")
        of_branch = load_table(self.location, options={**self.file_system_options, BRANCH: branch})
        if of_branch.schema.fields != self.schema.fields:
            raise NotSupportedError(
                f"The branch '{branch}' of '{self.database}.{self.table}' has other columns than the table. {advice}"
            )
        return True

    def files_by_token(self, table_id: str) -> FileIO:
        """Return the file system of the table of an id, for whose files the server of the catalog has tokens."""
        # By use: most tables need no client of REST.
        from interbed.catalog.client.rest.data_tokens import DataTokenOrigin, file_io_of, files_with

        name = TableName.parse(f"{self.database}.{self.table}").identifier
        options = self.catalog_options if self.token is None else {**self.catalog_options, **self.server_options}
        origin = DataTokenOrigin(CatalogOptions(options), name, table_id, self.location)
        return file_io_of(origin) if self.token is None else files_with(self.token, origin)

    @property
    def file_system_options(self) -> dict[str, str]:
        """The catalog's options of its file system, with those of its server."""
        return {**options_of_files(self.catalog_options), **self.server_options}

    @contextmanager
    def being_read(self) -> Iterator[None]:
        """Turn errors of missing files in the block into SnapshotGoneError if the handle's snapshot has expired."""
        try:
            yield
        except (FileNotFoundError, FileGoneError, SnapshotNotFoundError) as error:
            if self.snapshot_id is None or self._keeps(self.snapshot_id):
                raise
            raise SnapshotGoneError(
                f"Snapshot {self.snapshot_id} of '{self.database}.{self.table}' expired while it was being read. Run "
                "the statement again; 'snapshot.time-retained' and 'snapshot.num-retained.min' keep snapshots longer."
            ) from error

    def _keeps(self, snapshot_id: int) -> bool:
        """Return whether a snapshot still exists, or a tag that keeps its files."""
        try:
            self.open().versions.snapshot(snapshot_id)
        except SnapshotNotFoundError:
            return False
        return True


def renewed(handle: TableHandle, task: bytes) -> bytes:
    """Return a task of a scan or of a write with the present token of the table of a handle.

    Raises InvalidInputError for other bytes, and the errors of the catalog.
    """
    try:
        value = json.loads(task)
        sent = TableHandle.from_bytes(b64decode(value["handle"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"Not a task of a scan or of a write: {error}") from error
    renewed_handle = replace(sent, token=handle.for_executors().token)
    return json.dumps({**value, "handle": b64encode(renewed_handle.to_bytes()).decode()}).encode()


def handle_of_table(
    table: Table,
    *,
    catalog: str,
    catalog_options: Mapping[str, str],
    name: tuple[str, str],
    snapshot: Snapshot | None = None,
    dynamic_options: Mapping[str, str],
) -> TableHandle:
    """Return the handle by which other processes open a table; `name` is that of the database and of the table."""
    return TableHandle(
        catalog=catalog,
        catalog_options=catalog_options,
        database=name[0],
        table=name[1],
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=None if snapshot is None else snapshot.id,
        snapshot_identity=None if snapshot is None else snapshot.identity,
        server_options=_server_options_of(table, catalog_options),
        tokens_of=_tokens_of(table),
        dynamic_options=dynamic_options,
    )


def _server_options_of(table: Table, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the file system that the server of a catalog adds to the given ones, or overrides."""
    options = options_of_files(table.store.environment.file_options)
    return {k: v for k, v in options.items() if given.get(k) != v}


def _token_of_json(value: Any) -> "DataToken":
    # By use: most tables need no client of REST.
    from interbed.catalog.client.rest.data_tokens import DataToken

    return DataToken.from_json(value, source="A table handle")


_NEEDED = (*FILE_SYSTEM_PREFIXES, KAFKA)
"""Prefixes of options of a table whose secrets executors need: of its files, and of its log."""


def _stays(key: str) -> bool:
    """Return whether an option of a table stays on the driver: a secret that neither files nor the log need."""
    of_driver = known_option(key) is None or key.startswith(_OF_COMMITS)
    return of_driver and not key.startswith(_NEEDED) and is_secret(key)


def _without_secrets(schema_json: str) -> str:
    """Return a schema without the options that stay on the driver; the text is unchanged if there are none."""
    schema = json.loads(schema_json)
    options = schema.get("options") or {}
    if not any(_stays(key) for key in options):
        return schema_json
    return json.dumps({**schema, "options": {k: v for k, v in options.items() if not _stays(k)}})


def _tokens_of(table: Table) -> str | None:
    """Return the id of a table if a server has tokens for its files; None for another table."""
    if not table.store.environment.file_options:
        return None
    # By use: most tables need no client of REST.
    from interbed.catalog.client.rest.data_tokens import origin_of

    origin = origin_of(table.store.file_io)
    return None if origin is None else origin.table_id
