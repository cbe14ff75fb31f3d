"""The server's log and its audit log.

The server's log has text lines or JSON, each with the request that it belongs to. A JSON line has `time` (ISO 8601,
UTC), `level`, `logger`, `message`, `process`; while a request is served also `request_id`, `method`, `peer` and, after
set_ugi, `user`; the fields of a record's `extra={"fields": {…}}`; and `exception` with the traceback.

The audit log has a JSON line for every call that may change metadata, whether it did or was refused. A line has `time`
(ISO 8601, UTC, when the call ended), `request_id`, `method`, `peer`, `user` (the authenticated principal; without
authentication the name that the client sent) and `certificate` (verified), `mechanism` of the authentication and
`mechanism_id` (the id of the token), `real_user` (the service that acts for the user), `outcome` (ok, refused, failed),
`error`, `seconds`, and the subject of the call: `catalog`, `database`, `table`, `function`, `partitions` (their names
or values, ten at most) with `partition_count`, `to` (the other name of a rename or an exchange), `role` and
`principal`, `grants` (20 at most) with `grant_count`, the `renewer` of a delegation token, or the `sequence` number of
one, and the `rows` and `bytes` of a stream. Counts are numbers, `partitions` and `grants` lists of texts, whatever the
interface. Locks change no metadata and are not in it. Each line is appended by one write, so that several processes may
share a file and it may be rotated: a file that was moved is created again.
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from interbed.catalog.server.auth.delegation.hadoop_token import shown_sequence
from interbed.catalog.server.thrift.edge.call import Call, CallOutcome, current_method, current_request, current_session
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.storage.base.shown_text import MASK, escaped, is_secret, without_credentials

logger = logging.getLogger(__name__)

MESSAGE_CHARACTERS_MAX = 4000
"""Maximum length of a message in a line."""

VALUE_CHARACTERS_MAX = 200
"""Maximum length of an external name in a line."""


def configure_logging(level: str, form: str, stream: TextIO | None = None) -> None:
    """Write this process's log to the stream (standard error), as `text` or `json`. Replaces an earlier
    configuration.
    """
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.addFilter(_add_request)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Alembic logs each step that it skips.
    logging.getLogger("alembic").setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """Formats a record as a line of text. External text cannot begin another line: control characters are escaped, and
    a traceback is indented.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: ")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end, and an indented traceback if there is one."""
        record.asctime = self.formatTime(record)
        shown = cut_message(record.getMessage()) + cut_message(getattr(record, "request_text", ""))
        line = self.formatMessage(record) + shown
        lines = [escaped(line)]
        if record.exc_info:
            text = without_credentials(self.formatException(record.exc_info))
            lines.extend(f"    {escaped(each)}" for each in text.split("\n"))
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **getattr(record, "request_fields", {}),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            return json_line(line, exception=without_credentials(self.formatException(record.exc_info)))
        return json_line(line)


def json_line(content: Mapping[str, Any], **whole: str) -> str:
    """Return an object as one line of JSON, whatever line separators its texts hold. They are cut, except those given
    as `whole`.
    """
    # JSON leaves line separators beyond ASCII unescaped; escaped they are valid JSON, too.
    return escaped(json.dumps({**_shown(content), **whole}, ensure_ascii=False))


def _shown(value: Any) -> Any:
    """Return a value of a field, with its texts cut and without credentials."""
    if isinstance(value, str):
        return cut_message(value)
    if isinstance(value, Mapping):
        return {key: MASK if is_secret(str(key)) else _shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [_shown(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float) else cut_message(str(value))


class SlowCallLog:
    """Logs calls that took longer than `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def observed(self, call: Call) -> None:
        """Log a call that took too long."""
        if call.seconds >= self._seconds:
            fields = {**call_fields(call), "seconds": round(call.seconds, 3), "outcome": str(call.outcome)}
            logger.warning("slow call: %s took %.1f s", shortened(call.method), call.seconds, extra={"fields": fields})


def call_fields(call: Call) -> dict[str, Any]:
    """Return caller and method of a call, as fields of JSON lines."""
    fields = {
        "request_id": call.request_id,
        "method": shortened(call.method),
        "peer": call.session.peer,
        "user": call.session.user and shortened(call.session.user),
        "certificate": call.session.certificate and shortened(call.session.certificate.subject),
    }
    principal = call.session.principal
    if principal is not None:
        fields |= {"mechanism": str(principal.mechanism), "mechanism_id": principal.token_id}
        fields["real_user"] = principal.real_user and shortened(principal.real_user)
    return {name: value for name, value in fields.items() if value is not None}


def cut_message(text: str) -> str:
    """Return a message without credentials, cut to the limit of a line."""
    if len(text) > MESSAGE_CHARACTERS_MAX:
        text = f"{text[:MESSAGE_CHARACTERS_MAX]}… ({len(text)} characters)"
    return without_credentials(text)


def shortened(text: str) -> str:
    """Return an external text without credentials, cut to the limit of a line."""
    # Cut first: masking credentials searches the text, which may be of any length.
    if len(text) > MESSAGE_CHARACTERS_MAX:
        text = text[:MESSAGE_CHARACTERS_MAX]
    text = without_credentials(text)
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[:VALUE_CHARACTERS_MAX] + "…"


def _add_request(record: logging.LogRecord) -> bool:
    """Add the request of the present thread to the record: only the thread that logs knows it."""
    request_id = current_request.get()
    fields: dict[str, Any] = {}
    if request_id is not None:
        fields["request_id"] = request_id
        method, session = current_method.get(), current_session.get()
        if method is not None:
            fields["method"] = shortened(method)
        if session is not None:
            fields["peer"] = session.peer
            if session.user is not None:
                fields["user"] = shortened(session.user)
    record.request_fields = fields
    # Fields of the record come first: an observer is notified of calls that have ended.
    shown = {**fields, **{name: value for name, value in getattr(record, "fields", {}).items() if name in _SHOWN}}
    record.request_text = f" [{' '.join(f'{name}={value}' for name, value in shown.items())}]" if shown else ""
    return True


_SHOWN = ("request_id", "method", "peer", "user")


audit_logger = logging.getLogger("interbed.audit")

_CHANGES = (
    "add_",
    "alter_",
    "append_",
    "cancel_delegation_token",
    "create_",
    "delete_",
    "drop_",
    "exchange_",
    "fire_",
    "get_delegation_token",
    "grant_",
    "refresh_",
    "remove_",
    "rename_",
    "renew_delegation_token",
    "revoke_",
    "scheduled_query_maintenance",
    "set_aggr_",
    "truncate_",
    "update_",
)
_PARTITIONS_MAX = 10
_GRANTS_MAX = 20
_DEPTH_MAX = 4

_KEYS = {
    "catname": "catalog",
    "catalogname": "catalog",
    "dbname": "database",
    "databasename": "database",
    "sourcedb": "database",
    "tabledb": "database",
    "fktabledb": "database",
    "tablename": "table",
    "tblname": "table",
    "sourcetablename": "table",
    "fktablename": "table",
    "functionname": "function",
    "funcname": "function",
    "destdb": "to_database",
    "desttablename": "to_table",
    "schedulename": "scheduled_query",
    "clusternamespace": "namespace",
    "rolename": "role",
    "principalname": "principal",
    "tokenowner": "principal",
    "renewerkerberosprincipalname": "renewer",
    "tokenstrform": "sequence",
}
"""Names of fields, without case and underscores, and their meaning."""

_PARTS = {"prefix": "catalog", "namespace": "database"}
"""Parts of REST paths whose names differ from those in the log."""

_OTHER_SUBJECTS = (
    *("table", "function", "scheduled_query", "namespace", "role", "principal"),
    *("renewer", "sequence"),
)
"""Subjects of a call besides catalogs and databases."""

_NAME_OF = {"database": "database", "table": "table", "function": "function", "catalog": "catalog"}
"""Meaning of a plain `name`, by the subject of the method."""


def _of_request(value: object) -> object:
    """Return a value of a REST request with the type that the same field has in lines of Thrift's calls."""
    if isinstance(value, int | float):
        return value
    return [shortened(str(each)) for each in value] if isinstance(value, list) else shortened(str(value))


def is_change(method: str) -> bool:
    """Return whether a method changes metadata."""
    return method.startswith(_CHANGES)


class AuditLog:
    """Writes the lines to a file, or to the logger `interbed.audit` if there is none."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._descriptor = -1
        self._guard = threading.Lock()
        if file is not None:
            # Opened at the start, where a wrong path is reported to the user that starts the server.
            self._open(file)

    def observed(self, call: Call) -> None:
        """Log a call that may change metadata."""
        may_change = is_change(call.method) if call.is_change is None else call.is_change
        if not may_change or call.outcome is CallOutcome.UNKNOWN:
            return
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            **call_fields(call),
            **subject(call.method, call.arguments),
            "outcome": str(call.outcome),
            "seconds": round(call.seconds, 4),
        }
        if call.error is not None:
            line["error"] = shortened(call.error)
        if self._file is None:
            audit_logger.info("%s %s", call.method, call.outcome, extra={"fields": line})
            return
        try:
            self._append(self._file, (json_line(line) + "\n").encode())
        except OSError:
            # The change has happened and is acknowledged; the server's log at least must have it.
            audit_logger.exception("cannot write to the audit log %s: %s", self._file, json_line(line))

    def close(self) -> None:
        """Close the file of the log."""
        with self._guard:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _append(self, file: Path, line: bytes) -> None:
        with self._guard:
            if self._descriptor < 0 or _was_moved(self._descriptor, file):
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                    self._descriptor = -1
                self._open(file)
            os.write(self._descriptor, line)

    def _open(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def subject(method: str, arguments: Any) -> dict[str, Any]:
    """Return the subject of a call, found by the names of its arguments' fields: the interface has dozens
    of requests.
    """
    if isinstance(arguments, Mapping):
        return {_PARTS.get(str(name), str(name)): _of_request(value) for name, value in arguments.items()}
    bag = _bag(arguments)
    if bag is not None:
        return {"grants": [_shown_grant(each) for each in bag[:_GRANTS_MAX]], "grant_count": len(bag)}
    found: dict[str, str] = {}
    renamed: dict[str, str] = {}
    partitions: list[str] = []
    count = 0
    plain = next((meaning for kind, meaning in _NAME_OF.items() if f"_{kind}" in method), None)
    for path, key, value in _fields(arguments, ()):
        if key in ("partname", "partvals", "values") and value:
            count += 1
            partitions.append(value if isinstance(value, str) else "/".join(map(str, value)))
            continue
        if key in ("partnames", "names") and isinstance(value, list | set):
            count += len(value)
            partitions.extend(map(str, value))
            continue
        meaning = _KEYS.get(key, plain if key == "name" else None)
        if meaning is None or not isinstance(value, str):
            continue
        if meaning == "sequence":
            # The text has the password of the token.
            value = shown_sequence(value)
        # Fields are collected from the outside inwards: an inner field of the same meaning is the new state.
        if meaning not in found:
            found[meaning] = value
        elif path and path[-1].startswith(("new", "table", "func", "db", "catalog", "cat")):
            renamed.setdefault(meaning, value)
    return _subject_fields(found, renamed, partitions, count)


def _bag(arguments: Any) -> Sequence[Any] | None:
    """Return the privileges of a call that gives or revokes some."""
    if isinstance(arguments, list):
        return arguments
    for name in ("privileges", "request", "grantRequest"):
        inner = getattr(arguments, name, None)
        if inner is not None:
            return _bag(inner)
    return None


def _shown_grant(each: Any) -> str:
    """Return a privilege of a bag as one text: `SELECT on hive.sales.orders for user ann`."""
    ref, info = each.hiveObject, each.grantInfo
    names = [getattr(ref, name, None) for name in ("catName", "dbName", "objectName", "columnName")]
    kind = {1: "user", 2: "role", 3: "group"}.get(each.principalType, "user")
    on = ".".join(str(name) for name in names if name) or "the server"
    option = " with grant option" if getattr(info, "grantOption", False) else ""
    return shortened(f"{getattr(info, 'privilege', None)} on {on} for {kind} {each.principalName}{option}")


def _subject_fields(
    found: dict[str, str], renamed: dict[str, str], partitions: list[str], count: int
) -> dict[str, Any]:
    target: dict[str, Any] = {}
    if "database" in found:
        catalog, database = split_catalog(found["database"], found.get("catalog"))
        target = {"catalog": catalog, "database": database}
    elif "catalog" in found:
        target = {"catalog": found["catalog"]}
    target |= {key: found[key] for key in _OTHER_SUBJECTS if key in found}
    other = [found.get("to_database", ""), found.get("to_table", "")]
    if not any(other):
        changed = {key: value for key, value in renamed.items() if value.lower() != str(target.get(key, "")).lower()}
        other = [changed.get(key, "") for key in ("catalog", "database", "table", "function")]
    if any(other):
        target["to"] = shortened(".".join(filter(None, other)))
    if partitions:
        target["partitions"] = [shortened(name) for name in partitions[:_PARTITIONS_MAX]]
        target["partition_count"] = count
    return {key: shortened(value) if isinstance(value, str) else value for key, value in target.items() if value}


def _fields(struct: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Yield all fields of a Thrift structure and of nested ones, a structure's own before the nested ones."""
    inner: list[tuple[str, Any]] = []
    for field in getattr(struct, "thrift_spec", None) or ():
        if not field:
            continue
        value = getattr(struct, field[2], None)
        key = field[2].replace("_", "").lower()
        if value is None:
            continue
        if hasattr(value, "thrift_spec"):
            inner.append((key, value))
        elif isinstance(value, list) and value and hasattr(value[0], "thrift_spec"):
            inner.extend((key, each) for each in value[: _PARTITIONS_MAX + 1])
        else:
            yield path, key, value
    if len(path) < _DEPTH_MAX:
        for key, value in inner:
            yield from _fields(value, (*path, key))


def _was_moved(descriptor: int, file: Path) -> bool:
    try:
        named = os.stat(file)
    except FileNotFoundError:
        return True
    opened = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino)
