"""Faulty responses of an object store with S3's interface.

Each operation of a FileIO gives the right result with each fault at each of its requests. A store that never responds
ends every operation in time, with an error that says so.
"""

import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import file_io_for
from interbed.storage.io.stores import writes
from interbed.storage.io.stores.options import RequestLimits
from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import Fault, Request, StoreProxy
from tests.support.shares import LONG, each_run
from tests.support.tally import Tally

BUCKET = "lake"
PATIENCE = {
    "s3.retry.interval": "1ms",
    "s3.retry.limit": "4",
    "s3.connection.timeout": "300ms",
    "s3.connection.request.timeout": "3s",
}
STALL_SECONDS = 0.5
PART_BYTES = 5 << 20
"""The smallest part size that S3 accepts."""
LARGE = bytes(range(256)) * ((6 << 20) // 256)
SMALL = b"A" * 1000

FAULTS = [
    Fault(kind="answer", status=503),
    Fault(kind="lose"),
    Fault(kind="cut", after_bytes=40),
    Fault(kind="twice"),
]
MORE_FAULTS = [
    Fault(kind="answer", status=500),
    Fault(kind="answer", status=429),
    Fault(kind="refuse"),
    Fault(kind="cut", after_bytes=0),
    Fault(kind="stall", seconds=STALL_SECONDS),
]
"""The operations of the long run."""


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_s3(BUCKET) as options:
        yield options


@pytest.fixture
def proxy(store: dict[str, str]) -> Iterator[StoreProxy]:
    with StoreProxy.before(store) as running:
        yield running


def read(io: FileIO, at: str) -> bool:
    return io.read_bytes(f"{at}/a") == SMALL


def open_small(io: FileIO, at: str) -> bool:
    with io.open_input(f"{at}/a") as file:
        return bytes(file.read()) == SMALL


def open_large(io: FileIO, at: str) -> bool:
    with io.open_input(f"{at}/large") as file:
        file.seek(5)
        begin = bytes(file.read(100))
        file.seek(2 << 20)
        return begin == LARGE[5:105] and bytes(file.read(1000)) == LARGE[2 << 20 : (2 << 20) + 1000]


def write_small(io: FileIO, at: str) -> bool:
    with io.open_output(f"{at}/new") as file:
        file.write(b"new")
    return io.read_bytes(f"{at}/new") == b"new"


def write_large(io: FileIO, at: str) -> bool:
    with io.open_output(f"{at}/new") as file:
        file.write(LARGE[:100])
        file.write(LARGE[100:])
    return io.read_bytes(f"{at}/new") == LARGE


def create(io: FileIO, at: str) -> bool:
    return io.create_exclusive(f"{at}/new", b"new") and io.read_bytes(f"{at}/new") == b"new"


def create_what_is_there(io: FileIO, at: str) -> bool:
    return not io.create_exclusive(f"{at}/a", b"new") and io.read_bytes(f"{at}/a") == SMALL


def overwrite(io: FileIO, at: str) -> bool:
    io.overwrite(f"{at}/a", b"new")
    return io.read_bytes(f"{at}/a") == b"new"


def look_up(io: FileIO, at: str) -> bool:
    return io.exists(f"{at}/a") and io.exists(f"{at}/d") and not io.exists(f"{at}/no") and io.size(f"{at}/a") == 1000


def list_files(io: FileIO, at: str) -> bool:
    return sorted(status.name for status in io.list(at)) == ["a", "d"]


def make_directory(io: FileIO, at: str) -> bool:
    io.make_directories(f"{at}/e")
    return io.exists(f"{at}/e")


def delete_file(io: FileIO, at: str) -> bool:
    return io.delete(f"{at}/a") and not io.exists(f"{at}/a")


def delete_directory(io: FileIO, at: str) -> bool:
    return io.delete(f"{at}/d", recursive=True) and not io.exists(f"{at}/d")


def delete_some(io: FileIO, at: str) -> bool:
    io.delete_quietly([f"{at}/a", f"{at}/d/x", f"{at}/no"])
    return not io.exists(f"{at}/a") and io.exists(f"{at}/d")


def rename_file(io: FileIO, at: str) -> bool:
    return io.rename(f"{at}/a", f"{at}/b") and io.read_bytes(f"{at}/b") == SMALL and not io.exists(f"{at}/a")


def rename_directory(io: FileIO, at: str) -> bool:
    return io.rename(f"{at}/d", f"{at}/f") and io.read_bytes(f"{at}/f/y") == b"y" and not io.exists(f"{at}/d")


OPERATIONS = [
    read,
    open_small,
    open_large,
    write_small,
    write_large,
    create,
    create_what_is_there,
    overwrite,
    look_up,
    list_files,
    make_directory,
    delete_file,
    delete_directory,
    delete_some,
    rename_file,
    rename_directory,
]


def prepared(plain: FileIO, operation: Callable[[FileIO, str], bool]) -> str:
    """A directory with the files that the operations need."""
    at = f"s3://{BUCKET}/{uuid.uuid4()}"
    for name, content in (("a", SMALL), ("d/x", b"x"), ("d/y", b"y")):
        plain.overwrite(f"{at}/{name}", content)
    if operation is open_large:
        plain.overwrite(f"{at}/large", LARGE)
    return at


def failures(
    store: dict[str, str], proxy: StoreProxy, operation: Callable[[FileIO, str], bool], faults: list[Fault]
) -> tuple[int, list[str]]:
    """Return the number of faults, one for each run of the operation, and the faults that the operation did not
    survive.
    """
    plain, _ = file_io_for(f"s3://{BUCKET}", store)
    io, _ = file_io_for(f"s3://{BUCKET}", {**proxy.options, **PATIENCE})
    assert io.exclusive_create
    count, found = 0, []
    for place in itertools.count():
        hit = list[str]()
        # In each run, one of the faults at each request, in turn; in the long run, all of them.
        for fault in faults if LONG else (faults[place % len(faults)],):
            at, requests = prepared(plain, operation), itertools.count()
            hit.clear()

            def spoil(
                request: Request,
                requests: Iterator[int] = requests,
                place: int = place,
                hit: list[str] = hit,
                fault: Fault = fault,
            ) -> Fault | None:
                if next(requests) != place:
                    return None
                hit.append(request.name)
                return fault

            proxy.fault = spoil
            try:
                outcome = "" if operation(io, at) else "it says something else"
            except OSError as error:
                outcome = str(error)
            proxy.fault = None
            count += bool(hit)
            if outcome:
                found.append(f"{fault.kind} {fault.status} {fault.after_bytes} at {hit}: {outcome}")
        if not hit:
            return count, found
    raise AssertionError("unreachable")


@pytest.mark.sample(6)
@pytest.mark.longer
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_fault_at_any_request_does_not_change_the_result(
    operation: Callable[[FileIO, str], bool],
    store: dict[str, str],
    proxy: StoreProxy,
    monkeypatch: pytest.MonkeyPatch,
    tally: Tally,
) -> None:
    monkeypatch.setattr(writes, "PART_BYTES", PART_BYTES)
    count, found = failures(store, proxy, operation, FAULTS + (MORE_FAULTS if LONG else []))
    tally("faults at requests of a store", count)
    assert count
    assert not found, "\n".join(found)


FOR_EVER: dict[str, Callable[[FileIO, str], object]] = {
    "read": lambda io, at: io.read_bytes(f"{at}/a"),
    "open": lambda io, at: io.open_input(f"{at}/a"),
    "write": lambda io, at: write_small(io, at),
    "create": lambda io, at: io.create_exclusive(f"{at}/new", b"new"),
    "overwrite": lambda io, at: io.overwrite(f"{at}/a", b"new"),
    "look up": lambda io, at: io.exists(f"{at}/a"),
    "list": lambda io, at: io.list(at),
    "make directory": lambda io, at: io.make_directories(f"{at}/e"),
    "delete": lambda io, at: io.delete(f"{at}/d", recursive=True),
    "rename": lambda io, at: io.rename(f"{at}/a", f"{at}/b"),
}


NEVER_ANSWERED = [
    *((operation, Fault(kind="answer", status=503)) for operation in FOR_EVER),
    *((operation, Fault(kind="refuse")) for operation in ("read", "create", "list")),
    *((operation, Fault(kind="cut")) for operation in ("read", "list", "delete")),
]


# Each operation, and each kind of fault, occurred.
@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("operation", "fault"), each_run(NEVER_ANSWERED, lambda case: case[1].kind == "answer" or case[0] == "read")
)
def test_each_operation_on_a_store_that_never_responds_ends_with_the_path_named(
    operation: str, fault: Fault, store: dict[str, str], proxy: StoreProxy
) -> None:
    plain, _ = file_io_for(f"s3://{BUCKET}", store)
    io, _ = file_io_for(f"s3://{BUCKET}", {**proxy.options, **PATIENCE})
    at = prepared(plain, read)
    assert io.exclusive_create
    proxy.fault = lambda request: fault
    with proxy.watched() as seen, pytest.raises(StorageAccessError, match=at):
        FOR_EVER[operation](io, at)
    proxy.fault = None
    # There are five attempts for a request. Where obstore repeats an interrupted transfer, it may do so within each
    # attempt. Requests from before may end late.
    assert len(seen.requests) <= 30


def test_pauses_grow_and_have_jitter(store: dict[str, str], proxy: StoreProxy) -> None:
    io, _ = file_io_for(f"s3://{BUCKET}", {**proxy.options, "s3.retry.interval": "20ms", "s3.retry.limit": "3"})
    paths = [f"s3://{BUCKET}/{uuid.uuid4()}" for _ in range(3)]
    assert io.exclusive_create
    proxy.fault = lambda request: Fault(kind="answer", status=503)
    pauses: list[list[float]] = []
    for path in paths:
        with proxy.watched() as seen, pytest.raises(StorageAccessError, match="503"):
            io.create_exclusive(path, b"new")
        puts = [request for request in seen.requests if request.method == "PUT"]
        assert len(puts) == 4
        pauses.append([later.started - sooner.ended for sooner, later in itertools.pairwise(puts)])
    proxy.fault = None
    # At least a quarter of the maximum, which doubles.
    assert all(pause >= 0.02 * 2**retry / 4 for of_one in pauses for retry, pause in enumerate(of_one))
    assert len({round(pause, 5) for of_one in pauses for pause in of_one}) == 9


def test_pauses_double_up_to_the_maximum() -> None:
    backoff = replace(RequestLimits(first_pause_seconds=0.1, longest_pause_seconds=5.0).backoff, random=lambda: 1.0)
    assert [backoff.pause_seconds(retry) for retry in range(8)] == [
        0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0,
    ]  # fmt: skip
    assert replace(backoff, random=lambda: 0.0).pause_seconds(1000) == 1.25


def test_an_operation_ends_at_its_timeout(store: dict[str, str], proxy: StoreProxy) -> None:
    io, _ = file_io_for(f"s3://{BUCKET}", {**proxy.options, **PATIENCE, "s3.retry.limit": "1"})
    proxy.fault = lambda request: Fault(kind="stall", seconds=STALL_SECONDS)
    began = time.monotonic()
    with pytest.raises(StorageAccessError, match=f"s3://{BUCKET}/x"):
        io.read_bytes(f"s3://{BUCKET}/x")
    # Two attempts of three tenths of a second; the rest is for slow machines.
    assert time.monotonic() - began < 5
    proxy.fault = None
