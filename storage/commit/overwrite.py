"""What an overwrite changes: the files of the partitions that it replaces go, the new ones come."""

from collections.abc import Sequence
from dataclasses import replace

from interbed.storage.commit.base_files import BaseFiles
from interbed.storage.manifest.entry import FileKind, ManifestEntry
from interbed.storage.paths import POSTPONE_BUCKET
from interbed.storage.snapshot.snapshot import Snapshot


class OverwriteChanges:
    """The changes of one overwrite against whichever snapshot is the newest when it is tried.

    With `keeps_postponed` rows that wait for their bucket are left alone.
    """

    def __init__(self, base: BaseFiles, new_files: Sequence[ManifestEntry], *, keeps_postponed: bool = False) -> None:
        self._base = base
        self._new_files = tuple(new_files)
        self._keeps_postponed = keeps_postponed

    def against(self, latest: Snapshot | None) -> tuple[ManifestEntry, ...]:
        """Deletions of all live files of the partitions, then the additions."""
        gone = self._base.at(latest)
        if self._keeps_postponed:
            gone = [e for e in gone if e.bucket != POSTPONE_BUCKET]
        return replaced_by(gone, self._new_files)


def replaced_by(base: Sequence[ManifestEntry], new_files: Sequence[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """Deletions of the base files, then the additions. Pure."""
    return (*(replace(e, kind=FileKind.DELETE) for e in base), *new_files)
