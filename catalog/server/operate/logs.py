"""The server's log: lines for people or JSON for machines, each with the request that it belongs to.

A JSON line has `time` (ISO 8601, UTC), `level`, `logger`, `message`, `process`; where a request is being served also
`request_id`, `method`, `peer` and, after set_ugi, `user`; whatever a record was given as `extra={"fields": {…}}`; and
`exception` with the traceback.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from interbed.catalog.server.edge.call import Call, current_method, current_request, current_session

logger = logging.getLogger(__name__)

VALUE_CHARACTERS_MAX = 200
"""What of a name that came from outside stands in a line at most."""


def configure_logging(level: str, form: str, stream: TextIO | None = None) -> None:
    """Write this process's log to the stream (standard error), as `text` or `json`. Replaces what was configured."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.addFilter(_add_request)
    handler.setFormatter(
        JsonFormatter()
        if form == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s%(request_text)s")
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Alembic logs each step that it skips.
    logging.getLogger("alembic").setLevel(logging.WARNING)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
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
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class SlowCallLog:
    """Logs calls that took longer than `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def observed(self, call: Call) -> None:
        """Look at a call."""
        if call.seconds >= self._seconds:
            fields = {**call_fields(call), "seconds": round(call.seconds, 3), "outcome": str(call.outcome)}
            logger.warning("slow call: %s took %.1f s", shortened(call.method), call.seconds, extra={"fields": fields})


def call_fields(call: Call) -> dict[str, Any]:
    """Who called what, as it stands in JSON lines."""
    fields = {
        "request_id": call.request_id,
        "method": shortened(call.method),
        "peer": call.session.peer,
        "user": call.session.user and shortened(call.session.user),
        "certificate": call.session.certificate and shortened(call.session.certificate),
    }
    return {name: value for name, value in fields.items() if value is not None}


def shortened(text: str) -> str:
    """A text from outside, at a length fit for a line."""
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[:VALUE_CHARACTERS_MAX] + "…"


def _add_request(record: logging.LogRecord) -> bool:
    """Give the record the request of its thread: here, where the thread is still the one that logs."""
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
    # What a record says itself comes first: an observer is notified of calls that have ended.
    shown = {**fields, **{name: value for name, value in getattr(record, "fields", {}).items() if name in _SHOWN}}
    record.request_text = f" [{' '.join(f'{name}={value}' for name, value in shown.items())}]" if shown else ""
    return True


_SHOWN = ("request_id", "method", "peer", "user")
