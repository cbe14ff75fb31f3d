"""Index files of dynamic buckets: the hashes of the keys that live in one bucket (specification page
`spec/tableindex`, dynamic bucket index).

A file is the hashes, four bytes each, big-endian, in any order and each once; nothing else. Its length says how many
there are, and so does the index manifest.
"""

import numpy as np
import numpy.typing as npt

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.io.api import FileIO, write_file
from interbed.storage.meta.manifest.index_manifest import HASH_INDEX, IndexFileMeta

Hashes = npt.NDArray[np.int32]

_HASH_BYTES = 4
_WAY_OUT = "Write the partition anew by an overwrite (INSERT OVERWRITE), which makes new indexes."


def write_hashes(file_io: FileIO, path: str, hashes: Hashes) -> IndexFileMeta:
    """Write the hashes of a bucket to a new index file; its metadata. On an error the file is deleted."""
    content = hashes.astype(">i4").tobytes()
    write_file(file_io, path, content)
    return IndexFileMeta(
        index_type=HASH_INDEX, file_name=path.rpartition("/")[2], file_size=len(content), row_count=len(hashes)
    )


def read_hashes(file_io: FileIO, path: str, file: IndexFileMeta) -> Hashes:
    """The hashes of an index file; raises CorruptFileError naming the file when it is not what the manifest says."""
    try:
        content = file_io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptFileError(f"The hash index {path} is missing. {_WAY_OUT}") from None
    if len(content) != file.row_count * _HASH_BYTES:
        raise CorruptFileError(
            f"The hash index {path} has {len(content)} bytes; {file.row_count} hashes take "
            f"{file.row_count * _HASH_BYTES}. {_WAY_OUT}"
        )
    return np.frombuffer(content, ">i4").astype(np.int32)
