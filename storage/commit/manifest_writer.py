"""Writing the manifests and manifest lists of one commit, and removing them when it comes to nothing."""

import math
from collections.abc import Sequence

from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.at_once import PendingWrites
from interbed.storage.base.types.data_type import DataType
from interbed.storage.meta.manifest.entry import ManifestEntry, ManifestFileMeta
from interbed.storage.meta.manifest.manifest_file import make_meta, write_manifest
from interbed.storage.meta.manifest.manifest_list import write_manifest_list
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.paths import TablePaths
from interbed.storage.scan.manifest_reader import note_content

# A part is cut at a tenth above the target, so that the codec's luck does not put it below.
_ROLL_AIM = 1.1
_ROLL_SLACK = 1.25


class ManifestWriter:
    """Writes metadata files under new names and remembers them; not for use by several threads.

    In a store they are on their way when a method returns, and there after `finish`. They have the table's
    `manifest.format` and `manifest.compression`; InvalidOptionError for values of other kinds.
    """

    def __init__(
        self,
        file_io: FileIO,
        paths: TablePaths,
        options: CoreOptions,
        *,
        partition_types: Sequence[DataType],
        schema_id: int,
    ) -> None:
        self._file_io = file_io
        self._paths = paths
        self._partition_types = partition_types
        self._schema_id = schema_id
        self.codec = options.manifest_compression
        self.file_format = options.manifest_format
        self._target_size = options.manifest_target_file_size
        self._pending = PendingWrites(file_io)
        self._written: set[str] = set()
        self._synced: set[str] = set()

    def write(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        """Manifests that hold the entries in order, all but the last of at least the target size; none for no entries.

        A manifest below the target size counts as small and is merged again, so parts must not fall short of it.
        """
        manifests: list[ManifestFileMeta] = []
        rest = entries
        while rest:
            content = write_manifest(rest, self.codec, self.file_format)
            part = rest
            while len(content) > self._target_size * _ROLL_SLACK and len(part) > 1:
                fewer = math.ceil(len(part) * self._target_size * _ROLL_AIM / len(content))
                shorter = part[: max(1, min(fewer, len(part) - 1))]
                shortened = write_manifest(shorter, self.codec, self.file_format)
                if len(shortened) < self._target_size:
                    break
                part, content = shorter, shortened
            manifests.append(self._put_manifest(part, content))
            rest = rest[len(part) :]
        return manifests

    def write_list(self, manifests: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """A manifest list; its name and size in bytes."""
        name = self._paths.new_manifest_list_name()
        content = write_manifest_list(manifests, self.codec, self.file_format)
        self._put(name, content)
        return name, len(content)

    def put_index_manifest(self, content: bytes) -> str:
        """An index manifest of that content; its name."""
        name = self._paths.new_index_manifest_name()
        self._put(name, content)
        return name

    def finish(self) -> None:
        """Wait until all files are there; raises StorageAccessError naming one that could not be written."""
        self._pending.finish()

    def sync(self, others: Sequence[str] = ()) -> None:
        """Make what was written since the last sync and is not discarded durable, and other files with it.

        Raises SyncFailedError.
        """
        new = sorted(self._written - self._synced)
        self._file_io.sync([*others, *new])
        self._synced.update(new)

    def discard(self, names: Sequence[str]) -> None:
        """Delete those of the files named that this commit wrote."""
        paths = [self._paths.manifest(n) for n in names]
        self._pending.settle()
        ours = [p for p in paths if p in self._written]
        self._written.difference_update(ours)
        self._file_io.delete_quietly(ours)

    def discard_all(self) -> None:
        """Delete every file that this commit wrote: nothing refers to them."""
        self._pending.settle()
        self._file_io.delete_quietly(sorted(self._written))
        self._written.clear()

    def _put_manifest(self, entries: Sequence[ManifestEntry], content: bytes) -> ManifestFileMeta:
        name = self._paths.new_manifest_name()
        self._put(name, content)
        return make_meta(name, len(content), entries, self._schema_id, self._partition_types)

    def _put(self, name: str, content: bytes) -> None:
        """Write one file of the manifest directory and remember it."""
        path = self._paths.manifest(name)
        self._written.add(path)
        self._pending.write(path, content)
        note_content(self._file_io, path, content)
