"""A planner for drivers elsewhere: planner.thrift over TCP, binary protocol, unframed; a thread for each connection.

It asks nobody who they are: whoever reaches the port reads and writes what this process may. Bind it to a network that
is as closed as that of the executors.
"""

import logging
import socket
import socketserver

from thrift.Thrift import TException

from interbed.spark_ext.process.planner import serve

logger = logging.getLogger(__name__)


class _Conversation(socketserver.StreamRequestHandler):
    """One connection of a driver, which asks as it would ask a process of its own."""

    # Buffered, because Thrift writes an answer field by field.
    wbufsize = -1
    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            serve(self.rfile, self.wfile)  # type: ignore[arg-type]  # Typed as its base class.
        except (OSError, TException, UnicodeDecodeError) as error:
            logger.warning("a connection of %s broke off: %s", self.client_address[0], error)


class PlannerServer(socketserver.ThreadingTCPServer):
    """Answers from the moment of its making until `shutdown`; `port` 0 takes a free one."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Conversation)

    @property
    def endpoint(self) -> str:
        """What `spark.interbed.planner` is set to, to ask this server."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"thrift://[{name}]:{port}" if ":" in name else f"thrift://{name}:{port}"
