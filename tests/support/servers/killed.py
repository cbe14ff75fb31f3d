"""A server that is killed while clients change metadata."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from interbed.catalog.server.process.command import RunningServer, stop_server
from tests.support.waits import at_most

DEADLINE_SECONDS = at_most(120.0)


class FailingWorker(Protocol):
    """A client, with the error that ended it other than the death of the server."""

    failure: BaseException | None


W = TypeVar("W", bound=FailingWorker)


def run_until_killed(
    server: RunningServer, workers: Sequence[W], work: Callable[[W], None], enough: threading.Event
) -> None:
    """Let the workers work, each on a thread, until `enough` is set, then kill the server. Raise a worker's failure."""
    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    was_enough = enough.wait(timeout=DEADLINE_SECONDS)
    server.process.kill()
    for thread in threads:
        thread.join(timeout=DEADLINE_SECONDS)
        assert not thread.is_alive()
    stop_server(server)
    for worker in workers:
        if worker.failure is not None:
            raise worker.failure
    assert was_enough
