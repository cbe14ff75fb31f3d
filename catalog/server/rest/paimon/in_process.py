"""Calls of the Hive client that the metastore of this process answers, without a connection.

A call is encoded as for a connection, carried out by the dispatcher on the calling thread, and its answer decoded. So
observers see it, with the session of the REST request that makes it.
"""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any, TypeVar

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TTransport import CReadableTransport, TTransportBase

from interbed.catalog.server.service.errors import AccessDeniedError, AccessUnavailableError
from interbed.catalog.server.session import ClientLink, current_catalog
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.codec import BinaryCodec, MemorySource
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore

T = TypeVar("T")

_CODEC = BinaryCodec()


class DispatcherTransport(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """Transport of one call: the dispatcher answers what was written, at the end of the message."""

    def __init__(self, dispatcher: Dispatcher, session: ClientSession, catalog: str) -> None:
        self._dispatcher = dispatcher
        self._session = session
        self._catalog = catalog
        self._request = BytesIO()
        self._answer = BytesIO()

    def write(self, buf: bytes) -> None:
        """Append to the message."""
        self._request.write(buf)

    def flush(self) -> None:
        """Carry out the message."""
        request = self._dispatcher.read(_CODEC, MemorySource(self._request.getvalue()))
        self._request = BytesIO()
        token = current_catalog.set(self._catalog)
        try:
            answer = self._dispatcher.call(request, self._session)
            if isinstance(answer.refusal, AccessDeniedError | AccessUnavailableError):
                # The Hive client has no error of its own for it.
                raise answer.refusal
            self._answer = BytesIO(answer.reply)
        finally:
            current_catalog.reset(token)

    def read(self, sz: int) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return up to `sz` bytes of the answer."""
        return self._answer.read(sz)

    @property
    def cstringio_buf(self) -> BytesIO:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The answer, which Thrift's decoder in C reads."""
        return self._answer

    def cstringio_refill(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, partialread: bytes, reqlen: int
    ) -> BytesIO:
        """Raise EOFError: the whole answer is in memory."""
        raise EOFError("the answer of the dispatcher has ended")


class InProcessCalls:
    """Calls to one catalog of the metastore of this process, for one session. Safe for many threads."""

    def __init__(self, dispatcher: Dispatcher, session: ClientSession, catalog: str) -> None:
        self._dispatcher = dispatcher
        self._catalog = catalog
        # The locks that a call takes end with this process, not with the connection of the request.
        self._session = replace(session, link=ClientLink(is_in_process=True))

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def read(self, call: Callable[[Any], T]) -> T:
        """Make a call on this thread."""
        return self.change(call)

    def change(self, call: Callable[[Any], T]) -> T:
        """Make a call; its outcome is always known."""
        transport = DispatcherTransport(self._dispatcher, self._session, self._catalog)
        return call(ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport)))
