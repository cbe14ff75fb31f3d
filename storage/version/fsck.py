"""Check of a table: versions that refer to missing or damaged files, and remains of killed processes.

Every snapshot, tag and branch that is listed is followed down to the sizes of its data files; rows are not read. On
demand everything is repaired that needs no guess: unfinished journals, hints, directories of branches that cannot be
opened. A version whose files are missing is only reported: its owner decides.

`remove_missing_files` commits the removal of the missing data files of the newest snapshot. Their rows are lost;
without the removal every read of them fails. Source: paimon-core's ListUnexistingFiles, documentation page
`spark/procedures` (remove_unexisting_files).

Check of the row ids of a snapshot: no two rows may have one id, and the ids of later rows must be new. Pure.

Row ids in the metadata of files are compared as ranges. Those that a file stores are known by their bounds.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interbed.storage.base.bucket_id import BucketId, by_bucket
from interbed.storage.base.errors import CorruptFileError, InterbedError, NotSupportedError, StorageAccessError
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.io.resolve import scheme_of
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ROW_ID, DataFileMeta, ManifestEntry, merge_entries
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.expiry_mark import ExpiryMarks
from interbed.storage.meta.snapshot.history_journal import find_history_change, finish_history_change, put_aside
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.starting_point import has_changelog
from interbed.storage.version.branch import BranchManager
from interbed.storage.version.expire import SnapshotExpiry
from interbed.storage.version.references import References, all_branches, half_branches, place, tagged
from interbed.storage.write.commit_message import CommitMessage

_YOUNG_MILLIS = 24 * 3_600_000
"""Age below which the process that began a change may yet finish it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckIssue:
    """One problem: `what` has it (`tag early`), and whether it was mended."""

    what: str
    problem: str
    mended: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}{' (mended)' if self.mended else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckResult:
    """Problems of a table, and the number of versions and files that were checked."""

    findings: tuple[FsckIssue, ...] = ()
    versions: int = 0
    files: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether there are no problems left."""
        return all(finding.mended for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "sound": self.is_sound,
            "findings": [{"what": f.what, "problem": f.problem, "mended": f.mended} for f in self.findings],
            "versions": self.versions,
            "files": self.files,
        }

    def __str__(self) -> str:
        looked = f"{self.versions} versions and {self.files} files were looked at"
        if not self.findings:
            return f"nothing is wrong; {looked}"
        return "\n".join([*map(str, self.findings), looked])


def check_table(store: FileStore, *, repair: bool = False, clock: Callable[[], float] = time.time) -> FsckResult:
    """Check all versions of a table; with `repair` mend everything that needs no guess."""
    return _TableCheck(store, repair, int(clock() * 1000)).run()


class _TableCheck:
    """Check of all versions of one table."""

    def __init__(self, store: FileStore, repair: bool, now_millis: int) -> None:
        self._store = store if store.paths.branch == MAIN_BRANCH else store.on_branch(MAIN_BRANCH)
        self._repair = repair
        self._now = now_millis
        self._findings: list[FsckIssue] = []
        self._sizes: dict[str, dict[str, int]] = {}
        self._checked: dict[str, str | None] = {}
        self._versions = 0

    def run(self) -> FsckResult:
        """Check all branches. Directories of incomplete branches come first, because other problems depend on them."""
        for name in half_branches(self._store):
            self._check_half_branch(name)
        lines, damaged = all_branches(self._store)
        self._findings += [FsckIssue(what=what, problem=str(error)) for what, error in damaged.items()]
        for line in lines:
            before = len(self._findings)
            try:
                self._check_history(line)
            except InterbedError as error:
                self._findings.append(FsckIssue(what="versions", problem=str(error)))
            self._findings[before:] = [replace(f, what=place(line) + f.what) for f in self._findings[before:]]
        return FsckResult(findings=tuple(self._findings), versions=self._versions, files=len(self._checked))

    def _check_history(self, line: FileStore) -> None:
        self._check_journal(line)
        is_expiring = self._check_expiry(line)
        ids = line.snapshots.ids()
        missing = sorted(set(range(ids[0], ids[-1] + 1)) - set(ids)) if ids else []
        if missing:
            self._report("snapshots", f"{', '.join(map(str, missing))} are missing between {ids[0]} and {ids[-1]}")
        if not is_expiring or self._repair:
            self._check_hints(line, ids)
        for position, number in enumerate(ids):
            try:
                snapshot = line.snapshots.stored(number)
                with_changelog = position > 0 or has_changelog(line, snapshot)
                self._check_version(line, f"snapshot {number}", snapshot, changelog=with_changelog)
            except InterbedError as error:
                self._report(f"snapshot {number}", str(error))
        tags = tagged(line)
        for name, damage in tags.unjudged.items():
            self._report(name, str(damage))
        for snapshot in tags.snapshots:
            self._check_version(line, f"tag of snapshot {snapshot.id}", snapshot, changelog=False)

    def _check_journal(self, line: FileStore) -> None:
        try:
            change = find_history_change(line.file_io, line.paths)
        except CorruptFileError as error:
            # At each step of the change the newest snapshot is the one before it or the one after it.
            self._report("journal", str(error), lambda: put_aside(line.file_io, line.paths))
            return
        if change is not None:
            self._report(
                "journal",
                f"a {change.what} was not finished",
                lambda: finish_history_change(line.file_io, line.paths),
            )

    def _check_expiry(self, line: FileStore) -> bool:
        """Report an expiry that was not finished. Return whether it is still unfinished."""
        marks = ExpiryMarks(line.file_io, line.paths)
        try:
            mark = marks.find()
            if mark is not None:
                marks.plan(mark)
        except CorruptFileError as error:
            self._report("expiry", str(error), marks.clear)
            return True
        if mark is not None:
            what = f"the expiry of the snapshots {mark.begin} to {mark.end - 1} was not finished"
            self._report("expiry", what, SnapshotExpiry(line).finish)
        return mark is not None

    def _check_hints(self, line: FileStore, ids: list[int]) -> None:
        # A stale hint only costs its reader a listing; a hint of a missing snapshot comes from a change that failed.
        for path, right, note in (
            (line.paths.latest_hint, max(ids, default=None), line.snapshots.note_latest),
            (line.paths.earliest_hint, min(ids, default=None), line.snapshots.note_earliest),
        ):
            try:
                text = line.file_io.read_bytes(path).decode(errors="replace").strip()
            except FileNotFoundError:
                continue
            known = {str(number) for number in ids}
            if text not in known or (note == line.snapshots.note_earliest and text != str(right)):
                name = path.rpartition("/")[2]
                mend = None if right is None else (lambda note=note, right=right: note(right))
                self._report(f"hint {name}", f"it says {text[:40]!r} and {right} is right", mend)

    def _check_version(self, line: FileStore, what: str, snapshot: Snapshot, *, changelog: bool) -> None:
        self._versions += 1
        try:
            for path, size in self._needs(line, snapshot, changelog=changelog):
                problem = self._file_problem(path, size)
                if problem is not None:
                    self._report(what, problem)
            if line.options.row_tracking_enabled:
                reader = ManifestReader(line.file_io, line.paths)
                live = merge_entries(reader.entries(reader.data(snapshot)))
                for problem in row_id_problems(
                    (e.file for e in live),
                    snapshot.next_row_id,
                    line.schema_of,
                    evolves=line.options.data_evolution_enabled,
                ):
                    self._report(what, problem)
        except InterbedError as error:
            self._report(what, str(error))

    def _needs(self, line: FileStore, snapshot: Snapshot, *, changelog: bool) -> Iterator[tuple[str, int | None]]:
        """Yield the files that a read of the snapshot needs, with `changelog` also those of its changes.

        Each comes with its size, or None where its size is not recorded.
        """
        if snapshot.schema_id not in line.schemas.ids():
            yield line.paths.schema(snapshot.schema_id), None
        reader = ManifestReader(line.file_io, line.paths)
        manifests = reader.data(snapshot)
        yield from ((line.paths.manifest(m.file_name), m.file_size) for m in manifests)
        yield from ((path, None) for path in sorted(References(line).metadata(snapshot, changelog=False)))
        changelogs = reader.changelog(snapshot) if changelog else []
        yield from ((line.paths.manifest(m.file_name), m.file_size) for m in changelogs)
        for entry in (*merge_entries(reader.entries(manifests)), *reader.entries(changelogs)):
            directory = line.paths.bucket_directory(entry.bucket_id)
            path = entry.file.path_in(directory)
            yield path, entry.file.file_size
            yield from ((extra, None) for extra in entry.file.paths_in(directory) if extra != path)

    def _file_problem(self, path: str, size: int | None) -> str | None:
        """Return the problem of a file, or None. Each file is checked once, each directory is listed once."""
        if path in self._checked and (self._checked[path] is not None or size is None):
            return self._checked[path]
        directory, _, name = path.rpartition("/")
        if directory not in self._sizes:
            self._sizes[directory] = {s.name: s.size for s in self._store.file_io.list(directory)}
        found = self._sizes[directory].get(name)
        problem: str | None = None
        if found is None:
            problem = f"{path} is missing"
        elif size is not None and size != found:
            problem = f"{path} has {found} bytes and had {size} when it was written"
        self._checked[path] = problem
        return problem

    def _check_half_branch(self, name: str) -> None:
        directory = self._store.paths.branch_directory(name)
        parent = directory.rpartition("/")[0]
        times = [s.modified_millis for s in self._store.file_io.list(parent) if s.path == directory]
        old = any(t is not None and t < self._now - _YOUNG_MILLIS for t in times)
        self._report(
            f"branch {name}",
            "its creation or deletion was not finished: it has no first schema, so it can't be opened",
            (lambda: BranchManager(self._store).clear(name)) if old else None,
        )

    def _report(self, what: str, problem: str, mend: Callable[[], object] | None = None) -> None:
        mended = False
        if self._repair and mend is not None:
            try:
                mend()
                mended = True
            except InterbedError as error:
                problem = f"{problem}; it can't be mended: {error}"
        self._findings.append(FsckIssue(what=what, problem=problem, mended=mended))


def remove_missing_files(store: FileStore, *, dry_run: bool = False) -> list[str]:
    """Remove missing data files from the table by a commit of their own. Return their paths.

    A file outside of the table's directory counts as missing only where its directory exists without it: a disk that is
    not mounted, or another object store, says nothing about its files. Raises StorageAccessError and NotSupportedError
    when that is unknown, and as FileStoreCommit.commit does.
    """
    missing = _missing(store)
    if missing and not dry_run:
        if store.options.data_evolution_enabled:
            raise NotSupportedError(
                f"{len(missing)} buckets of the table at {store.location} lack files with some columns of their rows "
                "('data-evolution.enabled' = 'true'); without these files older values of the columns would be read. "
                "Nothing was changed. Roll back to a snapshot that is complete, or overwrite the partitions."
            )
        messages = [
            CommitMessage.deletion(bucket_id, entries[0].total_buckets, tuple(entry.file for entry in entries))
            for bucket_id, entries in missing.items()
        ]
        FileStoreCommit(store, str(uuid.uuid4()), new_user=True).commit(messages)
    return sorted(_data_path(store, entry) for entries in missing.values() for entry in entries)


def _missing(store: FileStore) -> dict[BucketId, list[ManifestEntry]]:
    latest = store.newest_snapshot()
    if latest is None:
        return {}
    found: list[ManifestEntry] = []
    reader = ManifestReader(store.file_io, store.paths)
    listed: dict[str, set[str]] = {}
    # Loop over files, not rows; a directory is listed once for all of its files.
    for entry in merge_entries(reader.entries(reader.data(latest))):
        directory, _, name = _data_path(store, entry).rpartition("/")
        if directory not in listed:
            if entry.file.external_path is not None:
                _check_reachable(store, directory)
            listed[directory] = {status.name for status in store.file_io.list(directory)}
        if name not in listed[directory]:
            found.append(entry)
    return by_bucket(found)


def _check_reachable(store: FileStore, directory: str) -> None:
    if scheme_of(directory) != store.file_io.scheme:
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


def _data_path(store: FileStore, entry: ManifestEntry) -> str:
    return entry.file.path_in(store.paths.bucket_directory(entry.bucket_id))


def row_id_problems(
    files: Iterable[DataFileMeta],
    next_row_id: int | None,
    schema_of: Callable[[int], TableSchema],
    *,
    evolves: bool = False,
) -> list[str]:
    """Return what is wrong with the row ids of the live files of a snapshot; `schema_of` has the schema of an id.

    In a table that `evolves` (`data-evolution.enabled`) files have columns of the same rows: they share all of their
    ids or none.
    """
    if evolves:
        return _evolving_problems(list(files), next_row_id or 0)
    problems: list[str] = []
    ranges: list[tuple[int, int, str]] = []
    following = next_row_id or 0
    for file in files:
        greatest = None
        if file.stores_row_ids:
            greatest = _greatest_stored(file, schema_of(file.schema_id))
        elif file.first_row_id is None:
            problems.append(f"the rows of {file.file_name} have no ids")
        else:
            greatest = file.first_row_id + file.row_count - 1
            ranges.append((file.first_row_id, greatest, file.file_name))
        if greatest is not None and greatest >= following:
            problems.append(
                f"{file.file_name} has the row id {greatest}, and rows that are yet to come begin with {following}"
            )
    last: tuple[int, int, str] | None = None
    for first, greatest, name in sorted(ranges):
        if last is not None and first <= last[1]:
            problems.append(f"{last[2]} and {name} have the same row ids, from {first} on")
        if last is None or greatest > last[1]:
            last = (first, greatest, name)
    return problems


def _evolving_problems(files: Sequence[DataFileMeta], following: int) -> list[str]:
    problems = [f"the rows of {f.file_name} have no ids" for f in files if f.first_row_id is None]
    last: tuple[int, int, str] | None = None
    for first, end, name in sorted(
        (f.first_row_id, f.first_row_id + f.row_count, f.file_name) for f in files if f.first_row_id is not None
    ):
        if end > following:
            problems.append(f"{name} has the row id {end - 1}, and rows that are yet to come begin with {following}")
        if last is not None and first < last[1] and (first, end) != last[:2]:
            problems.append(f"{last[2]} and {name} share some of their row ids, from {first} on, not all of them")
        if last is None or end > last[1]:
            last = (first, end, name)
    return problems


def _greatest_stored(file: DataFileMeta, schema: TableSchema) -> int | None:
    """Return the greatest stored id by the file's statistics; None without them."""
    names = file.stats_names(schema.names)
    known = readable_by_name(schema)
    if ROW_ID not in names or not all(name in known for name in names):
        return None
    try:
        row = decode_row(file.value_stats.max_values, [known[name].type for name in names])
    except CorruptFileError:
        # Files without statistics have an empty row.
        return None
    found = row[names.index(ROW_ID)]
    return found if isinstance(found, int) else None
