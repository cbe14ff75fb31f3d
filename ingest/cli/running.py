"""A run of ingestion as a command: it is shown, and ended by signals after what was read is committed."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from interbed.ingest.job import Ingestion


def run(job: "Ingestion", given: Mapping[str, Any]) -> None:
    """Carry it out, watched as the options say."""
    from interbed.ingest.watch import serve_metrics, shown_progress

    with ExitStack() as stack:
        stopped = stack.enter_context(_stop_signals())
        if given["metrics_port"] is not None:
            stack.enter_context(serve_metrics(job, given["metrics_host"], given["metrics_port"]))
        stack.enter_context(shown_progress(job))

        def committed() -> None:
            if given["as_json"]:
                click.echo(json.dumps({"event": "commit", **job.result.to_dict()}))

        job.run(stopped, committed)
    result = job.result
    if given["as_json"]:
        click.echo(json.dumps({"event": "end", **result.to_dict()}))
        return
    rows = sum(result.rows.values())
    bad = f", {result.bad} of them bad" if result.bad else ""
    print_line(
        f"read {result.messages} messages{bad}; committed {rows} rows of {len(result.rows)} tables in "
        f"{result.commits} commits"
    )


@contextmanager
def _stop_signals() -> "Iterator[Callable[[], bool]]":
    """Says whether SIGTERM or SIGINT came while the block runs; a second one ends the process as it would without."""
    came = threading.Event()
    before: dict[int, Any] = {}

    def note(number: int, _: object) -> None:
        came.set()
        signal.signal(number, before[number])

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, note)
    try:
        yield came.is_set
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)
