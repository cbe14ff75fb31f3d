"""Free ports for the servers of a test."""

import socket
from contextlib import ExitStack


def free_port() -> int:
    """Return a port of 127.0.0.1 without a listener."""
    [port] = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Return several free ports. All stay bound until the last one is chosen, so that they differ."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
