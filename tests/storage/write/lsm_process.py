"""A process that works on a table: `lsm_process.py <location> <work> <number> [--limit bytes] [fault…]`.

`upsert` writes KEYS keys with values that contain the number, `spill` does the same a fifth at a time through a tiny
buffer, `compact` compacts the table fully, `expire` leaves one snapshot, `tag` tags the newest. With `--limit` no file
may become larger, as on a full disk; the error is printed. Faults are those of io.faults.
"""

import argparse
import resource
import signal
import sys

import pyarrow as pa

from interbed.storage.base.errors import CommitConflictError, InterbedError
from interbed.storage.io.faults import Fault, FaultyFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table

KEYS = 1_000
LATER = 4_102_444_800
"""Seconds since the epoch: long after every snapshot was made."""


def rows(number: int, keys: int = KEYS, *, step: int = 1) -> pa.Table:
    """Keys with values that compress badly."""
    ids = range(0, keys * step, step)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [f"{number}-{i * 2654435761 % 2**32:08x}" for i in ids]})


def main() -> int:
    """Work according to the arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("location")
    parser.add_argument("work", choices=["upsert", "spill", "compact", "expire", "tag"])
    parser.add_argument("number", type=int)
    parser.add_argument("--limit", type=int)
    parser.add_argument("faults", nargs="*")
    arguments = parser.parse_args()
    if arguments.limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (arguments.limit, arguments.limit))
    files = FaultyFileIO(LocalFileIO(), [Fault.parse(f) for f in arguments.faults])
    options = {"write-buffer-size": "8 kb"} if arguments.work == "spill" else {}
    table = Table("db.t", open_store(arguments.location, files, dynamic_options=options))
    try:
        if arguments.work == "compact":
            print(table.compact(full=True).snapshot_id)
        elif arguments.work == "expire":
            print(table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER))
        elif arguments.work == "tag":
            print(table.versions.create_tag("new").name)
        else:
            with table.new_write("victim") as write:
                data = rows(arguments.number)
                size = KEYS // 5 if arguments.work == "spill" else KEYS
                for start in range(0, KEYS, size):
                    write.write_arrow(data.slice(start, size))
                table.new_commit("victim").commit(write.prepare_commit())
    except CommitConflictError:
        print("conflict")
    except InterbedError as error:
        print(type(error).__name__, error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
