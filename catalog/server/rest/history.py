"""The history of metadata by REST: changes, entries at a time, and tables put back to an older entry.

    GET  /interbed/v1/{prefix}/databases/{database}/history
    GET  /interbed/v1/{prefix}/databases/{database}/tables/{table}/history
    GET  /interbed/v1/{prefix}/databases/{database}/tables/{table}/entry?at=TIME
    POST /interbed/v1/{prefix}/databases/{database}/tables/{table}/restore

Times are those of `interbed metastore history`. A query may have `limit`, the number of the latest changes, `before`,
the id of the change that the page ends before, and for a table `id`, the number of one of several tables that had the
name. The body of a restore has `at`, and perhaps
`dry-run`.
"""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
    route,
)
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.errors import NoSuchObjectError
from interbed.catalog.server.service.history.forms import entry_json, moment_of, moment_text, value_json
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.service import Metastore

CHANGES_MAX = 100
"""Changes of one response: each has two entries of a table, which may have thousands of columns."""

_DATABASE = "v1/{prefix}/databases/{database}"
_TABLE = f"{_DATABASE}/tables/{{table}}"
_NUMBER_MAX = (1 << 63) - 1


class RestoreRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The body of a restore."""

    at: str | float
    dry_run: bool = False


class HistoryRoutes:
    """The routes about the history of a metastore."""

    def __init__(self, metastore: Metastore) -> None:
        self._history = metastore.history

    def routes(self) -> Sequence[RestRoute]:
        """Return the routes with the privilege that each needs."""
        usage, select, alter = Privilege.USAGE, Privilege.SELECT, Privilege.ALTER
        table = ObjectKind.TABLE
        return [
            route("GET", f"{_DATABASE}/history", "databaseHistory", usage, ObjectKind.DATABASE, self.of_database),
            route("GET", f"{_TABLE}/history", "tableHistory", select, table, self.of_table),
            route("GET", f"{_TABLE}/entry", "tableEntry", select, table, self.entry),
            route("POST", f"{_TABLE}/restore", "restoreTable", alter, table, self.restore),
        ]

    def of_database(self, request: RestRequest) -> RestResponse:
        """Return the changes of a database and of all in it."""
        parts = request.parts
        found = self._history.of_database(
            parts["prefix"], parts["database"], limit=_limit(request), before_id=_number(request, "before")
        )
        return json_response({"changes": [entry_json(each) for each in found]})

    def of_table(self, request: RestRequest) -> RestResponse:
        """Return the changes of a table under all of its names."""
        found = self._history.of_table(
            *_named(request),
            object_id=_number(request, "id"),
            limit=_limit(request),
            before_id=_number(request, "before"),
        )
        changes = [entry_json(each) for each in found.entries]
        return json_response({"changes": changes, "id": found.object_id, "others": found.others})

    def entry(self, request: RestRequest) -> RestResponse:
        """Return the entry of a table at a time."""
        moment = _moment(request.query.get("at", ""))
        found = self._history.table_at(*_named(request), moment, object_id=_number(request, "id"))
        if found is None:
            _, database, name = _named(request)
            raise NoSuchObjectError(f"{shortened(f'{database}.{name}')} did not exist at {moment_text(moment)}")
        return json_response({"table": value_json(found)})

    def restore(self, request: RestRequest) -> RestResponse:
        """Put a table back to its entry of a time."""
        given = request.json(RestoreRequest)
        plan = self._history.restore(
            *_named(request), _moment(str(given.at)), user=request.session.user or "", dry_run=given.dry_run
        )
        return json_response({"table": value_json(plan.table), "kept": plan.kept, "missing": plan.missing})


def _named(request: RestRequest) -> tuple[str, str, str]:
    return request.parts["prefix"], request.parts["database"], request.parts["table"]


def _moment(text: str) -> int:
    try:
        return moment_of(text)
    except ValueError as error:
        raise _invalid(f"{shortened(text)!r} is no time such as 2026-11-29T12:00:00Z or 1795953600") from error


def _limit(request: RestRequest) -> int:
    return min(_number(request, "limit") or CHANGES_MAX, CHANGES_MAX)


def _number(request: RestRequest, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= _NUMBER_MAX):
        raise _invalid(f"{name} is a number above 0, not {shortened(text)!r}")
    return int(text)


def _invalid(message: str) -> RestError:
    return RestError(HTTPStatus.BAD_REQUEST, "BadRequest", message)
