"""Which files never change once they are there, by their names: those that have a UUID and are no state of anybody's.

Snapshots, hints, schemas, tags, consumers and interbed's own epochs and positions are none of them.
"""

import re
from enum import StrEnum


class Kind(StrEnum):
    """What a file is, by Paimon's words for what its cache keeps."""

    META = "meta"
    DATA = "data"
    BUCKET_INDEX = "bucket-index"
    GLOBAL_INDEX = "global-index"
    FILE_INDEX = "file-index"


_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PATTERNS = (
    (Kind.META, re.compile(rf"(?:manifest|manifest-list|index-manifest|stat)-{_UUID}[-.0-9a-z]*")),
    (Kind.BUCKET_INDEX, re.compile(rf"index-{_UUID}-\d+")),
    (Kind.GLOBAL_INDEX, re.compile(rf".*global-index-.*{_UUID}.*\.index")),
    (Kind.FILE_INDEX, re.compile(rf"[^.].*{_UUID}.*\.index")),
    (Kind.DATA, re.compile(rf"(?:[^.].*)?{_UUID}.*\.(?:parquet|orc|avro)")),
)


def kind_of(path: str) -> Kind | None:
    """What kind of file that never changes a path names; None for every other."""
    name = path.rpartition("/")[2]
    return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(name)), None)
