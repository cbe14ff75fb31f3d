"""The route of rows: a table's rows as its caller may see them, read by the server.

    POST v1/{prefix}/databases/{database}/tables/{table}/rows

The body is a RowsRequest, the answer a stream in Arrow's IPC format (streams.py). `{table}` may be a branch,
`t$branch_b`, or the changes of a table, `t$audit_log` and `t$binlog`. Row filters and masks that bind the caller are
applied as interbed's readers apply them: a condition on a masked column sees the mask. Columns that the caller may not
read are refused by name. The reader needs no credentials of the store, since the server has its own; a table whose
store the server cannot read is refused by name. The server opens no files outside of the table's directories, because
its clients write the metadata that names files.

docs/rows-openapi.yaml is its OpenAPI document.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from interbed.catalog.server.rest.access.routes import OperationMessages
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    route,
)
from interbed.catalog.server.rest.rows.streams import RowStream, RowStreams, verified
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.objects import Privilege, SecuredObject, column_object
from interbed.catalog.server.service.errors import AccessDeniedError, AccessUnavailableError, NoSuchObjectError
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.call import current_request
from interbed.storage.base.errors import (
    BranchNotFoundError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
    StorageAccessError,
    TagNotFoundError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from interbed.catalog.client.identifier import TableName
    from interbed.catalog.server.rest.paimon.access import CatalogAccess
    from interbed.storage.base.predicate.expr import Predicate
    from interbed.storage.base.types.data_type import DataField
    from interbed.storage.read.guarded_scan import GuardedRows, RowRules
    from interbed.storage.table.guarded_table import GuardedTable

logger = logging.getLogger(__name__)

ARROW_STREAM = "application/vnd.apache.arrow.stream"
"""Media type of Arrow's stream format."""

FILTER_BYTES_MAX = 64 << 10
"""The longest filter: its conditions are evaluated for each row."""

_TABLE = "v1/{prefix}/databases/{database}/tables/{table}"
_VERSIONS = ("snapshot_id", "tag", "timestamp_millis", "incremental_between")

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class RowsRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A query of the rows of a table: columns (all by default), a filter, a limit, and the version to read.

    `filter` is a condition as in `scan`, or a predicate in interbed's JSON. At most one of `snapshot-id`, `tag` and
    `timestamp-millis` names an older version. `incremental-between` are two snapshots or tags, `1,5`: of the changes
    that `$audit_log` and `$binlog` show, those after the first one.
    """

    columns: list[str] | None = None
    filter: str | dict[str, Any] | None = None
    limit: Count | None = None
    snapshot_id: Count | None = None
    tag: str | None = None
    timestamp_millis: Count | None = None
    incremental_between: str | None = None
    branch: str | None = None


MESSAGES: Mapping[str, OperationMessages] = {"readRows": OperationMessages(body=RowsRequest)}
"""The messages of the operation; its answer is no JSON."""


class RowRoutes:
    """The route of rows of the tables of a metastore. `access` returns its catalogs; it is called by the first request,
    because they load Arrow.
    """

    def __init__(self, metastore: Metastore, access: "Callable[[], CatalogAccess]", streams: RowStreams) -> None:
        self._metastore = metastore
        self._access = access
        self._streams = streams

    def routes(self) -> Sequence[RestRoute]:
        """Return the route with the privilege that it needs."""
        made = route("POST", f"{_TABLE}/rows", "readRows", Privilege.SELECT, ObjectKind.TABLE, self.read)
        return [replace(made, shows_rows=True, subject=_subject)]

    def read(self, request: RestRequest) -> RestResponse:
        """Return rows of a table as a stream in Arrow's IPC format, filtered and masked for the caller."""
        given = request.json(RowsRequest) if request.body else RowsRequest()
        _check(given)
        try:
            query = self._opened(request, given)
        except (InterbedError, OSError) as error:
            refusal = _refusal_before(error)
            if refusal is None:
                raise
            raise refusal from error
        principal = request.session.principal
        return RestResponse(
            headers={"Content-Type": ARROW_STREAM},
            stream=RowStream(
                self._streams,
                client=request.session.peer.rpartition(":")[0] if principal is None else principal.name,
                read=query.read,
                check=query.check,
                refused=query.refused,
            ),
        )

    def _opened(self, request: RestRequest, given: RowsRequest) -> "ServedQuery":
        from interbed.catalog.client.errors import TableNotFoundError
        from interbed.catalog.server.rest.paimon.access import table_name
        from interbed.storage.views.changes import AUDIT_LOG, BINLOG

        access, name = self._access(), table_name(request)
        if name.system not in (None, AUDIT_LOG, BINLOG):
            raise TableNotFoundError(f"The system table '{name.of_table}${name.system}' is not read by the server.")
        if name.system is None and given.incremental_between is not None:
            raise InvalidInputError("'incremental-between' is for changes: read $audit_log or $binlog of the table.")
        if given.branch is not None and name.branch is not None:
            raise InvalidInputError("The branch is in the path or in the body, and not in both.")
        return ServedQuery(self._metastore, access, request, name, given)


class ServedQuery:
    """One query of the rows of a table, for the caller of a request."""

    def __init__(
        self,
        metastore: Metastore,
        access: "CatalogAccess",
        request: RestRequest,
        name: "TableName",
        given: RowsRequest,
    ) -> None:
        self._guard = metastore.access
        found = access.policies_of(request, name)
        assert found is not None, "the prefix is a catalog of the metastore"
        self._policies, self._on = found
        self._verify = request.verify
        self._table: Any = access.table_for_rows(request, name)
        self._view = name.system
        self._given = given
        self._asked: tuple[str, Sequence[str]] | None = None
        self._rules: RowRules | None = None

    def read(self) -> "pa.RecordBatchReader":
        """Open the query: bind its filter and ask for the rules of the caller."""
        from interbed.storage.table.guarded_table import GuardedTable
        from interbed.storage.table.table import Table

        if not isinstance(self._table, Table):
            return self._guarded_rows().to_arrow_batch_reader()
        given, table = self._given, GuardedTable(self._table, self._rules_of)
        if given.branch is not None:
            table = table.branch(given.branch)
        version = _versioned(table, given)
        if self._view is not None:
            view = version.change_view(self._view)
            if given.incremental_between is not None:
                view = view.copy({"incremental-between": given.incremental_between})
            found = view.scan(given.columns, _condition(given), given.limit, given.snapshot_id)
            return found.to_arrow_batch_reader()
        scan = version.scan(given.columns, _condition(given), given.limit, given.snapshot_id, threads=1)
        return scan.to_arrow_batch_reader()

    def _guarded_rows(self) -> "GuardedRows":
        """Return the query of a table in another format than Paimon's."""
        from interbed.storage.base.predicate.expr import columns_of
        from interbed.storage.read.guarded_scan import GuardedRows
        from interbed.storage.table.guarded_table import present_names

        given, table = self._given, self._table
        named = {
            "snapshot_id": given.snapshot_id,
            "tag": given.tag,
            "timestamp": given.timestamp_millis,
            "branch": given.branch,
        }
        version = {name: value for name, value in named.items() if value is not None}
        if self._view is not None or (version and not hasattr(table, "fields_of")):
            raise NotSupportedError(
                f"The {self._on} is in another format than Paimon's: the server reads no changes of it, and no older "
                "versions of tables without snapshots. Read its rows without these."
            )

        def scan(columns: Sequence[str] | None, condition: "str | Predicate | None", limit: int | None) -> Any:
            return table.scan(columns, condition, limit, threads=1, **version)

        whole = scan(given.columns, _condition(given), given.limit)
        fields, present = self._fields(version), self._fields({})
        columns = tuple(whole.schema.names)
        asked = {*columns, *(() if whole.predicate is None else columns_of(whole.predicate))}
        rules = self._rules_of("", present_names(asked, fields, present)).bound(fields, present)
        return GuardedRows(
            scan_of=scan, fields=fields, columns=columns, rules=rules, predicate=whole.predicate, limit=given.limit
        )

    def _fields(self, version: Mapping[str, Any]) -> "Sequence[DataField]":
        """Return the columns of a version of a table in another format than Paimon's."""
        of_version = getattr(self._table, "fields_of", None)
        found: Sequence[DataField] = self._table.schema.fields if of_version is None else of_version(**version)
        return found

    def check(self) -> None:
        """Raise the error of a caller that may not read the rows any more, or for which other policies hold by now."""
        verified(self._verify)
        _check_reader(self._guard, self._on)
        if self._asked is not None and self._present_rules(*self._asked) != self._rules:
            raise RestError(
                HTTPStatus.CONFLICT,
                "PoliciesChanged",
                f"The row filters or column masks of the {self._on} have changed since the stream began: read again.",
            )

    def refused(self, error: Exception) -> RestError:
        """Return the error of a stream. An error while rows are read may name values that are hidden from the caller:
        of these the server's log has the text.
        """
        if isinstance(error, RecursionError):
            return _invalid("the filter is nested too deeply")
        if self._rules is None or isinstance(error, _WITHOUT_VALUES):
            known = _refusal_before(error)
            if known is not None:
                return known
        logger.error("the rows of %s cannot be read", self._on, exc_info=error)
        return RestError(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "InternalServerError",
            f"The rows of the {self._on} cannot be read ({type(error).__name__}): the server's log has the reason, at "
            f"the request {current_request.get()}.",
        )

    def _rules_of(self, branch: str, columns: Sequence[str]) -> "RowRules":
        found = self._present_rules(branch, columns)
        self._asked, self._rules = (branch, columns), found
        return found

    def _present_rules(self, branch: str, columns: Sequence[str]) -> "RowRules":
        from interbed.storage.read.guarded_scan import RowRules
        from interbed.storage.table.table import Table

        _check_reader(self._guard, self._on)
        self._policies.check_columns(self._on, columns)
        if isinstance(self._table, Table):
            store = self._table.store
            fields: Sequence[DataField] = (
                store if branch == store.paths.branch else store.on_branch(branch)
            ).schema.fields
        else:
            fields = self._fields({})
        found = self._policies.reader_rules(self._on, fields)
        return RowRules(filters=tuple(found.filters), masks=dict(found.masks))


def _check_reader(guard: AccessGuard, on: SecuredObject) -> None:
    """Raise AccessDeniedError for a caller that may read no column of a table."""
    if not guard.may((Privilege.SELECT,), on):
        guard.require((Privilege.SELECT,), column_object(on, None))


def _versioned(table: "GuardedTable", given: RowsRequest) -> "GuardedTable":
    if given.tag is not None:
        return table.copy({"scan.tag-name": given.tag})
    if given.timestamp_millis is not None:
        return table.copy({"scan.timestamp-millis": str(given.timestamp_millis)})
    return table


def _condition(given: RowsRequest) -> "str | Predicate | None":
    if not isinstance(given.filter, Mapping):
        return given.filter
    from interbed.storage.base.predicate.json import from_json

    return from_json(json.dumps(given.filter))


def _check(given: RowsRequest) -> None:
    """Raise RestError with status 400 for a body that no query has."""
    named = [name.replace("_", "-") for name in _VERSIONS if getattr(given, name) is not None]
    if len(named) > 1:
        raise _invalid(f"{' and '.join(named)} name different versions: give one of them")
    size = len(msgspec.json.encode(given.filter))
    if size > FILTER_BYTES_MAX:
        raise _invalid(f"a filter has at most {FILTER_BYTES_MAX} bytes, this one {size}")


def _invalid(message: str) -> RestError:
    return RestError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def _subject(request: RestRequest) -> Mapping[str, object]:
    given = request.json(RowsRequest) if request.body else RowsRequest()
    return {} if given.branch is None else {"branch": given.branch}


_WITHOUT_VALUES = (
    AccessDeniedError,
    AccessUnavailableError,
    SnapshotNotFoundError,
    TagNotFoundError,
    BranchNotFoundError,
    StorageAccessError,
    NotSupportedError,
)
"""Errors of readers whose texts have no values of rows."""

_KINDS: tuple[tuple[type[Exception], HTTPStatus, str], ...] = (
    (AccessDeniedError, HTTPStatus.FORBIDDEN, "Forbidden"),
    (AccessUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable"),
    (NoSuchObjectError, HTTPStatus.NOT_FOUND, "NoSuchObject"),
    (SnapshotNotFoundError, HTTPStatus.NOT_FOUND, "Snapshot"),
    (TagNotFoundError, HTTPStatus.NOT_FOUND, "Tag"),
    (BranchNotFoundError, HTTPStatus.NOT_FOUND, "Branch"),
    (InvalidInputError, HTTPStatus.BAD_REQUEST, "BadRequest"),
    (NotSupportedError, HTTPStatus.NOT_IMPLEMENTED, "NotSupported"),
    (StorageAccessError, HTTPStatus.SERVICE_UNAVAILABLE, "StorageAccess"),
)


def _refusal_before(error: Exception) -> RestError | None:
    """Return the error of a query whose rows have not been read yet; None for an error of the server."""
    from interbed.catalog.client.errors import DatabaseNotFoundError, NotAnInterbedTableError, TableNotFoundError
    from interbed.catalog.server.rest.paimon.refusals import refusal

    of_catalog: tuple[tuple[type[Exception], HTTPStatus, str], ...] = (
        (TableNotFoundError, HTTPStatus.NOT_FOUND, "Table"),
        (DatabaseNotFoundError, HTTPStatus.NOT_FOUND, "Database"),
        (NotAnInterbedTableError, HTTPStatus.NOT_IMPLEMENTED, "NotSupported"),
    )
    for kind, status, name in (*of_catalog, *_KINDS):
        if isinstance(error, kind):
            return RestError(status, name, str(error))
    found = refusal(error, {})
    return None if found is None else RestError(found.status, found.status.phrase.replace(" ", ""), str(found))
