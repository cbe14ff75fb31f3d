"""A worker that is stopped in its first task, before it writes or when it has written; then it is like any other."""

import logging
import os
import signal
import sys
from typing import Any

from interbed.cli import main
from interbed.optimizer.service import worker
from interbed.optimizer.work import carry_out as work

hangs_before, has_hung = False, False


def carry_out(*given: Any, **more: Any) -> Any:
    """As the worker's own, but for the first time."""
    global has_hung
    hangs, has_hung = not has_hung, True
    if hangs and hangs_before:
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        return work.carry_out(*given, **more)
    finally:
        if hangs and not hangs_before:
            os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    hangs_before = sys.argv.pop() == "before"
    setattr(worker, "carry_out", carry_out)  # noqa: B010 - it is the worker's own name for it.
    logging.basicConfig(level="INFO")
    main(["optimizer", "worker", *sys.argv[1:]])
