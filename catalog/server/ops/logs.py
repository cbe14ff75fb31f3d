"""The server's log: text lines or JSON, each with the request that it belongs to.

A JSON line has `time` (ISO 8601, UTC), `level`, `logger`, `message`, `process`; while a request is served also
`request_id`, `method`, `peer` and, after set_ugi, `user`; the fields of a record's `extra={"fields": {…}}`; and
`exception` with the traceback.
"""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from interbed.catalog.server.thrift.edge.call import Call, current_method, current_request, current_session
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
        "certificate": call.session.certificate and shortened(call.session.certificate),
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
