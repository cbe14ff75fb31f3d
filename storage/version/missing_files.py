"""Data files that the newest snapshot names and that are not there: found, and taken out of the table.

Their rows are lost; without this every read of them fails. Source: paimon-core's ListUnexistingFiles, documentation
page `spark/procedures` (remove_unexisting_files).
"""

import uuid

from interbed.storage.base.bucket_id import BucketId, by_bucket
from interbed.storage.base.errors import NotSupportedError, StorageAccessError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.manifest.entry import ManifestEntry, merge_entries
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.write.commit_message import CommitMessage


def remove_missing_files(store: TableStore, *, dry_run: bool = False) -> list[str]:
    """Take the data files that are gone out of the table by a commit of their own; their paths.

    A file outside of the table's directory counts as gone only where its directory is there and lacks it: a disk that
    is not mounted, or another store, says nothing about its files. Raises StorageAccessError and NotSupportedError when
    that is unknown, and as FileStoreCommit.commit does.
    """
    missing = _missing(store)
    if missing and not dry_run:
        messages = [
            CommitMessage.deletion(bucket_id, entries[0].total_buckets, tuple(entry.file for entry in entries))
            for bucket_id, entries in missing.items()
        ]
        FileStoreCommit(store, str(uuid.uuid4()), new_user=True).commit(messages)
    return sorted(_path(store, entry) for entries in missing.values() for entry in entries)


def _missing(store: TableStore) -> dict[BucketId, list[ManifestEntry]]:
    latest = store.newest_snapshot()
    if latest is None:
        return {}
    found: list[ManifestEntry] = []
    reader = ManifestReader(store.file_io, store.paths)
    listed: dict[str, set[str]] = {}
    # A loop over files, not rows; a directory is listed once for all of its files.
    for entry in merge_entries(reader.entries(reader.data(latest))):
        directory, _, name = _path(store, entry).rpartition("/")
        if directory not in listed:
            if entry.file.external_path is not None:
                _check_there(store, directory)
            listed[directory] = {status.name for status in store.file_io.list(directory)}
        if name not in listed[directory]:
            found.append(entry)
    return by_bucket(found)


def _check_there(store: TableStore, directory: str) -> None:
    scheme = directory.partition("://")[0] if "://" in directory else "file"
    if scheme != store.file_io.scheme:
        raise NotSupportedError(
            f"It is unknown which files are in {directory}, because the table at {store.location} is in another store. "
            "Nothing was changed."
        )
    if not store.file_io.exists(directory):
        raise StorageAccessError(
            f"It is unknown whether the files of {store.location} in {directory} are gone: there is no such directory "
            "now, as when a disk is not mounted. Nothing was changed; make it reachable, or make an empty directory of "
            "that name when the files are gone for good."
        )


def _path(store: TableStore, entry: ManifestEntry) -> str:
    return entry.file.path_in(store.paths.bucket_directory(entry.bucket_id))
