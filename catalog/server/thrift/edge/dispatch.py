"""Dispatch of messages to methods: decode the arguments, call the handler, encode the result or the exception.

The generated processor is not used, because it swallows internal errors, cannot distinguish unknown methods and encodes
in small pieces. Here the methods are found once: every handler's method with a name of the interface is served, any
other name is answered UNKNOWN_METHOD. Observers are notified of each call when it has ended.
"""

import itertools
import logging
import os
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TMessageType, TType

from interbed.catalog.server.service.directories.remote_files import MissedDeadlines, missed_deadlines
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    InvalidObjectError,
    MetastoreError,
    NoSuchObjectError,
    UnknownDatabaseError,
)
from interbed.catalog.server.threads import AnswerLaterError, current_link, may_answer_later, session_settings
from interbed.catalog.server.thrift.edge.call import (
    Call,
    CallObserver,
    CallOutcome,
    ClientSession,
    current_method,
    current_request,
    current_session,
    notify,
)
from interbed.catalog.server.thrift.edge.codec import UNREADABLE, Codec, IncompleteMessageError, MemorySource
from interbed.catalog.server.thrift.structs.requests import (
    IncompleteRequestError,
    UndeclaredError,
    declared_exception,
    parts_of,
    shown_message,
)
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore

logger = logging.getLogger(__name__)

UNKNOWN_NAMES_MAX = 1000
"""Names of unknown methods that are remembered; limited, because clients choose them."""

NOT_ADMITTED = 10
"""Type of the answer to a client that is not authenticated any more or never was: Java's UNSUPPORTED_CLIENT_TYPE."""

_CONVERSION = ("interbed.catalog.server.thrift.structs.", "interbed.catalog.server.thrift.calls.")
"""The modules that convert requests."""


class _Method:
    """One served method: its decoding, its handler, its encoding."""

    __slots__ = ("argument_names", "arguments", "call", "exceptions", "name", "parts", "result", "structures")

    def __init__(self, name: str, call: Any) -> None:
        self.name = name
        self.call = call
        self.arguments = getattr(ThriftHiveMetastore, f"{name}_args")
        self.parts = parts_of(self.arguments)
        # A oneway method has no result, and no reply.
        self.result = getattr(ThriftHiveMetastore, f"{name}_result", None)
        fields = [field for field in self.arguments.thrift_spec or () if field]
        self.argument_names = [field[2] for field in fields]
        self.structures = [field[2] for field in fields if field[1] == TType.STRUCT]
        self.exceptions = {
            field[3][0]: field[2]
            for field in (self.result.thrift_spec if self.result else ()) or ()
            if field and field[0] > 0 and field[1] == TType.STRUCT
        }

    def missing_structure(self, arguments: Any) -> str | None:
        """Return the first argument that should be a structure and is missing; some methods allow that."""
        return next((name for name in self.structures if getattr(arguments, name) is None), None)


@dataclass(slots=True, kw_only=True)
class Request:
    """A decoded message; `method` is None for an unknown one."""

    codec: Codec
    name: str
    kind: int
    sequence: int
    method: _Method | None
    arguments: Any


@dataclass(slots=True, kw_only=True)
class CallAnswer:
    """Result of a message. The bytes of the reply are `before`, the sequence id, `after`; none if it is oneway."""

    method: str
    outcome: CallOutcome
    arguments: Any
    before: bytes
    sequence: bytes
    after: bytes
    session: ClientSession
    """The session after the call: set_ugi changes it."""
    refusal: MetastoreError | None = None
    """The error of the rules, if the call was refused by one."""
    lasting: bool = False
    """Whether the same call has the same answer until metadata changes: errors of the database may be temporary."""

    @property
    def reply(self) -> bytes:
        """Return the bytes to send."""
        return self.before + self.sequence + self.after


class Dispatcher:
    """The methods of some handlers, called by messages. Safe for many threads."""

    def __init__(self, handlers: Iterable[object], observers: Sequence[CallObserver] = ()) -> None:
        self._methods: dict[str, _Method] = {}
        for handler in handlers:
            for name in dir(handler):
                if not name.startswith("_") and hasattr(ThriftHiveMetastore, f"{name}_args"):
                    if name in self._methods:
                        raise ValueError(f"two handlers define {name}")
                    self._methods[name] = _Method(name, getattr(handler, name))
        self._observers = tuple(observers)
        self._guard = threading.Lock()
        self.unknown: Counter[str] = Counter()
        # Ids are unique among processes and restarts, and cheap: a few random letters and a count.
        self._process = os.urandom(5).hex()
        self._numbers = itertools.count(1)

    @property
    def method_names(self) -> frozenset[str]:
        """The methods that are served."""
        return frozenset(self._methods)

    def next_request_id(self) -> str:
        """Return an id for a request, as it appears in logs."""
        return f"{self._process}-{next(self._numbers)}"

    def notify_ended(
        self, method: str, session: ClientSession, started: float, outcome: CallOutcome, *, arguments: Any = None
    ) -> None:
        """Notify the observers of a call that began at this time of the monotonic clock and was answered elsewhere."""
        if self._observers:
            self._log_call(self.next_request_id(), method, session, started, outcome, None, arguments)

    def notify(self, call: Call) -> None:
        """Notify the observers of a call of another interface."""
        notify(self._observers, call)

    def read(self, codec: Codec, source: Any) -> Request:
        """Read one message from a source.

        Raises Thrift's exceptions for an invalid message: the connection must be closed then, for the beginning of the
        next message is unknown. IncompleteMessageError if the source ends within the message.
        """
        try:
            return self._read(codec, source)
        except UNREADABLE as error:
            # The decoder in C also raises this if the bytes end within the head of a list or a map: it discards the
            # exception of the source.
            if isinstance(source, MemorySource) and source.has_run_out:
                raise IncompleteMessageError from error
            raise TProtocolException(
                TProtocolException.INVALID_DATA, f"not a message: {type(error).__name__}: {error}"
            ) from error

    def _read(self, codec: Codec, source: Any) -> Request:
        protocol = codec.reader(source)
        name, kind, sequence = protocol.readMessageBegin()
        method = self._methods.get(name) if kind in (TMessageType.CALL, TMessageType.ONEWAY) else None
        if method is None:
            arguments = None
            protocol.skip(TType.STRUCT)
        else:
            arguments = method.arguments()
            arguments.read(protocol)
        protocol.readMessageEnd()
        return Request(codec=codec, name=name, kind=kind, sequence=sequence, method=method, arguments=arguments)

    def call(self, request: Request, session: ClientSession, *, may_wait: bool = False) -> CallAnswer:
        """Call the method and return the answer. Raises nothing, except AnswerLaterError if the request `may_wait`."""
        started = time.monotonic()
        request_id = self.next_request_id()
        name, method = request.name, request.method
        tokens = set_variables(
            (current_request, request_id),
            (current_method, name),
            (current_session, session),
            (session_settings, session.settings),
            (missed_deadlines, MissedDeadlines()),
            (current_link, session.link),
            (may_answer_later, may_wait),
        )
        try:
            if session.refusal is not None:
                error: str | None = session.refusal
                answer = self._not_admitted(request, session)
            elif method is None:
                error = f"unknown method {name:.100}"
                answer = self._refused(request, session)
            else:
                answer, error = self._called(request.codec, method, request.arguments, session)
            if request.kind == TMessageType.ONEWAY or (method is not None and method.result is None):
                answer.before = answer.after = b""
            else:
                answer.sequence = request.codec.sequence(request.sequence)
            self._log_call(request_id, name, answer.session, started, answer.outcome, error, request.arguments)
        finally:
            for variable, token in tokens:
                variable.reset(token)
        return answer

    def refusal(self, codec: Codec, message: bytes, reason: str) -> bytes:
        """Return the reply to a message that is not decoded. Raises Thrift's exceptions for an invalid message."""
        name, _, sequence = codec.reader(MemorySource(message)).readMessageBegin()
        before, between = codec.header(name, TMessageType.EXCEPTION)
        body = _application_error(codec, TApplicationException.PROTOCOL_ERROR, f"{name:.100}: {reason}")
        return before + codec.sequence(sequence) + between + body

    def _called(
        self, codec: Codec, method: _Method, arguments: Any, session: ClientSession
    ) -> tuple[CallAnswer, str | None]:
        name = method.name
        outcome, kind, lasting = CallOutcome.OK, TMessageType.REPLY, True
        error = None
        refused: MetastoreError | None = None
        try:
            method.parts.check(arguments)
            value = method.call(*[getattr(arguments, field) for field in method.argument_names])
            if name == "set_ugi" and session.principal is None:
                session = replace(session, user=arguments.user_name)
            body = b""
            if method.result is not None:
                result = method.result()
                if value is not None:
                    result.success = value
                body = codec.encode(result)
        except AnswerLaterError:
            raise
        except MetastoreError as refusal:
            logger.debug("%s refused: %s", name, refusal)
            error, refused = shown_message(refusal), refusal
            lasting = isinstance(refusal, NoSuchObjectError | UnknownDatabaseError)
            declared = declared_exception(refusal, method.exceptions)
            if declared is None or method.result is None:
                is_refusal = isinstance(refusal, UndeclaredError | AccessDeniedError | InvalidObjectError)
                outcome = CallOutcome.REFUSED if is_refusal else CallOutcome.FAILED
                kind = TMessageType.EXCEPTION
                body = _application_error(codec, TApplicationException.INTERNAL_ERROR, f"{name}: {error}")
            else:
                outcome = CallOutcome.REFUSED
                result = method.result()
                setattr(result, *declared)
                body = codec.encode(result)
        except IncompleteRequestError as lack:
            outcome, kind, lasting = CallOutcome.REFUSED, TMessageType.EXCEPTION, True
            error = f"{name} needs its argument {lack}, which the request does not have"
            logger.info("refused a request of %s: %s", session.peer, error)
            body = _application_error(codec, TApplicationException.PROTOCOL_ERROR, error)
        except Exception as failure:
            # The only place that catches every exception: a request must get an answer, and the server must go on.
            outcome, kind, lasting = CallOutcome.FAILED, TMessageType.EXCEPTION, False
            missing = method.missing_structure(arguments) if isinstance(failure, AttributeError) else None
            if missing is not None or _is_of_conversion(failure):
                outcome = CallOutcome.REFUSED
                error = f"{name} needs {_argument(missing)}, which the request does not have"
                logger.info("refused a request of %s: %s", session.peer, error)
                body = _application_error(codec, TApplicationException.PROTOCOL_ERROR, error)
            else:
                logger.exception("%s failed", name)
                error = f"Internal error processing {name}: {type(failure).__name__}: {shown_message(failure)}"
                body = _application_error(codec, TApplicationException.INTERNAL_ERROR, error)
        answer = _answer(codec, name, kind, outcome, arguments, body, session)
        answer.lasting, answer.refusal = lasting, refused
        return answer, error

    def _not_admitted(self, request: Request, session: ClientSession) -> CallAnswer:
        name, codec = request.name, request.codec
        logger.info("refused a request of %s: %s", session.peer, session.refusal)
        body = _application_error(codec, NOT_ADMITTED, f"{name:.100}: {session.refusal}")
        return _answer(codec, name, TMessageType.EXCEPTION, CallOutcome.REFUSED, None, body, session)

    def _refused(self, request: Request, session: ClientSession) -> CallAnswer:
        name, codec = request.name, request.codec
        with self._guard:
            first = name not in self.unknown and len(self.unknown) < UNKNOWN_NAMES_MAX
            if first or name in self.unknown:
                self.unknown[name] += 1
        if first:
            logger.warning("a client called %.100s, which is not served", name)
        message = f"Invalid method name: '{name:.100}'"
        body = _application_error(codec, TApplicationException.UNKNOWN_METHOD, message)
        return _answer(codec, name, TMessageType.EXCEPTION, CallOutcome.UNKNOWN, None, body, session)

    def _log_call(
        self,
        request_id: str,
        method: str,
        session: ClientSession,
        started: float,
        outcome: CallOutcome,
        error: str | None,
        arguments: Any,
    ) -> None:
        if self._observers:
            notify(
                self._observers,
                Call(
                    request_id=request_id,
                    method=method,
                    session=session,
                    seconds=time.monotonic() - started,
                    outcome=outcome,
                    error=error,
                    arguments=arguments,
                ),
            )


def _is_of_conversion(failure: Exception) -> bool:
    """Return whether the conversion of a request failed on a missing part: no other code there meets None."""
    if not isinstance(failure, AttributeError | TypeError) or "NoneType" not in str(failure):
        return False
    frames = list(traceback.walk_tb(failure.__traceback__))
    return bool(frames) and str(frames[-1][0].f_globals.get("__name__", "")).startswith(_CONVERSION)


def _argument(name: str | None) -> str:
    return "a structure or a list" if name is None else f"its argument {name}"


def set_variables(*values: tuple[ContextVar[Any], Any]) -> list[tuple[ContextVar[Any], Any]]:
    """Set variables of the context; return each with the token that resets it."""
    return [(variable, variable.set(value)) for variable, value in values]


def _answer(
    codec: Codec, name: str, kind: int, outcome: CallOutcome, arguments: Any, body: bytes, session: ClientSession
) -> CallAnswer:
    before, between = codec.header(name, kind)
    return CallAnswer(
        method=name,
        outcome=outcome,
        arguments=arguments,
        before=before,
        sequence=b"",
        after=between + body,
        session=session,
    )


def _application_error(codec: Codec, kind: int, message: str) -> bytes:
    """Return the bytes of a TApplicationException."""
    return codec.encode(_ApplicationError(kind, message))


class _ApplicationError(TApplicationException):  # type: ignore[misc]
    """A TApplicationException with the description of its fields that Thrift's encoder needs."""

    thrift_spec = (
        None,
        (1, TType.STRING, "message", "UTF8", None),
        (2, TType.I32, "type", None, None),
    )
