"""A worker that the optimizer has started beside itself: `python -m interbed.optimizer.service.local_worker`.

What it is to be comes as one line of JSON on standard input, options of the catalog with their secrets among it, so
that none stands on a command line. The other end of standard input is the optimizer's: when that is gone, however it
went, the worker ends at once, and nobody is left behind. SIGTERM lets it finish what it does.

    {"uri": "thrift://127.0.0.1:41234", "group": "default", "threads": 1, "memory": 1073741824,
     "options": {"warehouse": "file:/tmp/lake"}, "log_level": "WARNING"}
"""

import json
import logging
import os
import signal
import socket
import sys
import threading

from interbed.optimizer.service.scheduler_client import SchedulerClient
from interbed.optimizer.service.worker import OptimizerWorker, WorkerSettings, opened_with
from interbed.storage.base.errors import InterbedError

LOG_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"

_log = logging.getLogger(__name__)


def place(pid: int | None = None) -> str:
    """Where a process of this machine is, by default this one: host:pid."""
    return f"{socket.gethostname()}:{os.getpid() if pid is None else pid}"


def stop_at_signals(worker: OptimizerWorker) -> None:
    """SIGTERM and SIGINT end the worker when it has finished what runs; a second one ends the process."""

    def note(number: int, _: object) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        worker.stop()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, note)


def main() -> int:
    """Be a worker until the optimizer says that it is enough; the exit code."""
    line = sys.stdin.buffer.readline()
    if not line:
        return 1
    given = json.loads(line)
    threading.Thread(target=_end_with_parent, name="optimizer-parent", daemon=True).start()
    logging.basicConfig(level=given["log_level"], format=LOG_FORMAT)
    client = SchedulerClient(given["uri"])
    settings = WorkerSettings(group=given["group"], threads=given["threads"], memory=given["memory"], place=place())
    worker = OptimizerWorker(client, opened_with(given["options"]), settings)
    stop_at_signals(worker)
    try:
        worker.run()
    except InterbedError as error:
        _log.error("This worker ends: %s", error)
        return 1
    finally:
        client.close()
    return 0


def _end_with_parent() -> None:
    # Nothing more is ever said there. Not by way of sys.stdin, whose lock the end of the interpreter would wait for.
    while os.read(0, 1):
        pass
    # What runs is done again by others, who delete what is left of it.
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
