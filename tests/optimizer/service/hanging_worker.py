"""A worker that is stopped by a signal in its first task, before or after it writes; then it behaves like any other."""

import logging
import signal
import sys
import threading
from typing import Any

from interbed.cli import main
from interbed.optimizer.service import worker
from interbed.optimizer.work import lake_tables

hangs_before, has_hung = False, False


def _stop() -> None:
    """Stop the process, and this thread before it continues: a signal to the process may arrive too late for it."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def carry_out(*given: Any, **more: Any) -> Any:
    """Call the worker's own function, and stop at the first call."""
    global has_hung
    hangs, has_hung = not has_hung, True
    if hangs and hangs_before:
        _stop()
    try:
        return lake_tables.carry_out(*given, **more)
    finally:
        if hangs and not hangs_before:
            _stop()


if __name__ == "__main__":
    hangs_before = sys.argv.pop() == "before"
    setattr(worker, "carry_out", carry_out)  # noqa: B010 - it is the worker's own name for it.
    logging.basicConfig(level="INFO")
    main(["optimizer", "worker", *sys.argv[1:]])
