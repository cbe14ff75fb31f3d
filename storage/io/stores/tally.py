"""How many requests this process has made to object stores, what came and went with them, and how long they took."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """Requests of one kind; those that were repeated after an error count once. Bytes are those of contents.

    `wait_seconds` is the sum over all requests, also of those that were on the way at the same time.
    """

    requests: int = 0
    failed: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    wait_seconds: float = 0.0

    def plus(self, other: "RequestCounts") -> "RequestCounts":
        """Both together."""
        return RequestCounts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    def minus(self, other: "RequestCounts") -> "RequestCounts":
        """What has come since those others were counted."""
        return RequestCounts(**{name: value - getattr(other, name) for name, value in asdict(self).items()})


@dataclass(slots=True)
class RequestReport:
    """Requests by kind (`get`, `put`, `list`, …); `str` for people, `to_json` for programs."""

    kinds: Mapping[str, RequestCounts] = field(default_factory=dict[str, RequestCounts])

    @property
    def total(self) -> RequestCounts:
        """All kinds together."""
        total = RequestCounts()
        for counts in self.kinds.values():
            total = total.plus(counts)
        return total

    def since(self, before: "RequestReport") -> "RequestReport":
        """What has come since then."""
        changed = {k: c.minus(before.kinds.get(k, RequestCounts())) for k, c in self.kinds.items()}
        return RequestReport({k: c for k, c in sorted(changed.items()) if c.requests})

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        kinds = {kind: asdict(counts) for kind, counts in self.kinds.items()}
        return {"total": asdict(self.total), "kinds": kinds}

    def __str__(self) -> str:
        total = self.total
        kinds = ", ".join(f"{counts.requests:,} {kind}" for kind, counts in self.kinds.items())
        failed = f", {total.failed:,} of them failed" if total.failed else ""
        return (
            f"{total.requests:,} requests ({kinds or 'none'}){failed}; {total.read_bytes / 1024:,.0f} KiB read, "
            f"{total.written_bytes / 1024:,.0f} KiB written; {total.wait_seconds * 1000:,.0f} ms waited"
        )


_guard = threading.Lock()
_counted: dict[str, RequestCounts] = {}


def count(kind: str, counts: RequestCounts) -> None:
    """Add requests of a kind."""
    with _guard:
        _counted[kind] = _counted.get(kind, RequestCounts()).plus(counts)


def requests_so_far() -> RequestReport:
    """All requests since the process began."""
    with _guard:
        return RequestReport(dict(_counted))


@contextmanager
def counted_requests() -> Iterator[RequestReport]:
    """The requests that the whole process makes within the block; the report is complete at its end."""
    before, report = requests_so_far(), RequestReport()
    try:
        yield report
    finally:
        report.kinds = requests_so_far().since(before).kinds
