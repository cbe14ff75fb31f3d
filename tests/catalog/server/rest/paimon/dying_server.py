"""A server that dies in a commit by REST: `python -m tests.catalog.server.rest.paimon.dying_server WHEN ARGUMENTS…`.

WHEN is `before` the snapshot is created, `created`, before the pointer of the metastore moves, `moved`, after that, or
`answered`, at the end of the request, before the response. The arguments are those of the server.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from interbed.catalog.client.hive import publisher
from interbed.catalog.server.process.command import main
from interbed.catalog.server.rest.paimon.snapshots import SnapshotRoutes


def _dying(call: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    def dying(*arguments: Any, **named: Any) -> Any:
        if not before:
            call(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return dying


def _patch(when: str) -> None:
    if when in ("before", "created"):
        names = publisher.__dict__
        names["create_snapshot"] = _dying(names["create_snapshot"], before=when == "before")
    elif when == "moved":
        publisher.HivePublisher._move_pointer = _dying(publisher.HivePublisher._move_pointer, before=False)  # type: ignore[method-assign]
    else:
        SnapshotRoutes._commit = _dying(SnapshotRoutes._commit, before=False)  # type: ignore[method-assign]


if __name__ == "__main__":
    _patch(sys.argv.pop(1))
    main()
