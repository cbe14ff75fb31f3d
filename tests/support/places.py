"""Places of test files in a run with several processes: folders whose files run in one process, one after the other.

The fixtures of these folders start a Spark session or a peer for the whole session of a process. `make test`
(`-n 2 --dist loadfile`) gives all files of such a folder to the same process, so that each of them starts once and
stays warm. Other files are places of their own. The long tests are distributed by file: a place of theirs would be
longer than what all other processes do.
"""

from xdist.scheduler import LoadFileScheduling

SHARED_FOLDERS = (
    "tests/spark_ext/",
    "tests/interop/flink/",
    "tests/interop/",
    "tests/ingest/",
    "tests/optimizer/journal/",
    "tests/catalog/server/rest/iceberg/",
    "tests/peers/hive/",
    "tests/peers/clients/",
    "tests/peers/trino/",
)
"""Folders whose files share a session fixture; the first one that has a file is its place."""


def place_of(file: str) -> str:
    """Return the place of a test file, `tests/folder/test_x.py`: a folder of SHARED_FOLDERS, or the file itself."""
    return next((folder for folder in SHARED_FOLDERS if file.startswith(folder)), file)


class PlacedScheduling(LoadFileScheduling):  # type: ignore[misc] # xdist has no types.
    """Scheduler of xdist that gives a place at a time to a process."""

    def _split_scope(self, nodeid: str) -> str:
        return place_of(str(super()._split_scope(nodeid)))
