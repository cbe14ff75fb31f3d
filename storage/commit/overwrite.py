"""What an overwrite changes: the files of the partitions that it replaces go, the new ones come."""

from collections.abc import Sequence
from dataclasses import replace

from interbed.storage.commit.base_files import BaseFiles
from interbed.storage.manifest.entry import FileKind, ManifestEntry
from interbed.storage.snapshot.snapshot import Snapshot


class OverwriteChanges:
    """The changes of one overwrite against whichever snapshot is the newest when it is tried."""

    def __init__(self, base: BaseFiles, new_files: Sequence[ManifestEntry]) -> None:
        self._base = base
        self._new_files = tuple(new_files)

    def against(self, latest: Snapshot | None) -> tuple[ManifestEntry, ...]:
        """Deletions of all live files of the partitions, then the additions."""
        return replaced_by(self._base.at(latest), self._new_files)


def replaced_by(base: Sequence[ManifestEntry], new_files: Sequence[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """Deletions of the base files, then the additions. Pure."""
    return (*(replace(e, kind=FileKind.DELETE) for e in base), *new_files)
