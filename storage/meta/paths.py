"""Paths of the files of a table (specification page `spec/overview`), and the names of new ones.

<location>/snapshot/snapshot-<id>, LATEST, EARLIEST
<location>/schema/schema-<id>
<location>/schema/.journal                                      interbed's own, see meta.snapshot.history_journal
<location>/schema/.commit-turn, or snapshot/.commit-turn        likewise, see storage.commit.contention
<location>/manifest/manifest-<uuid>-<n>, manifest-list-<uuid>-<n>, index-manifest-<uuid>-<n>
<location>/index/index-<uuid>-<n>
<location>/statistics/stat-<uuid>-<n>
<location>/tag/tag-<name>
<location>/consumer/consumer-<id>
<location>/epoch/epoch-<commit user>                            likewise, see storage.commit.stream_commits
<location>/position/position-<commit user>                      likewise, see storage.commit.stream_commits
<location>/log/LATEST                                           likewise, see storage.meta.snapshot.progress
<location>/branch/branch-<name>/snapshot|schema|tag|consumer/…  the same of a branch; all other files are shared
<location>/[<partition column>=<value>/…]bucket-<n>/data-<uuid>-<n>.<format>

Paths of the new files of one bucket: below the table's directory, or below one of its external paths.

Names below an external path are those below the table: `<external path>/[<partition>/]bucket-<n>/<file>`; with
`entropy-inject` four directories made of a hash of the file's name precede it. Source: paimon-common
`fs.RoundRobinExternalPathProvider`, `fs.EntropyInjectExternalPathProvider` and `fs.WeightedExternalPathProvider`.
"""

import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from interbed.storage.base.path_name import entry_name
from interbed.storage.base.types.data_type import STRINGS, DataType, is_atomic
from interbed.storage.io.resolve import normalize_path
from interbed.storage.meta.options.format import ExternalPaths, ExternalPathStrategy

POSTPONE_BUCKET = -2
LINE_JOURNAL = ".journal"
COMMIT_TURN = ".commit-turn"
MAIN_BRANCH = "main"

_ESCAPED = frozenset([*map(chr, range(0x20)), *"\"#%'*/:=?\\{}[]^\x7f"])
# Characters of java.lang.Character.isWhitespace; str.isspace differs in the no-break spaces and U+0085.
_BLANK = frozenset(
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)


class TablePaths:
    """Paths of one table. `partition_types` are those of `partition_names`, in the table's order.

    `default_name` is the directory name of null and blank partition values, `legacy` the option
    `partition.legacy-name`, `branch` the branch of snapshots and schemas. No method accesses a file.
    """

    def __init__(
        self,
        location: str,
        partition_names: Sequence[str] = (),
        partition_types: Sequence[DataType] = (),
        default_name: str = "__DEFAULT_PARTITION__",
        legacy: bool = True,
        data_directory: str | None = None,
        branch: str = MAIN_BRANCH,
    ) -> None:
        self.location = location.rstrip("/") or "/"
        self.partition_names = tuple(partition_names)
        self.partition_types = tuple(partition_types)
        self.default_name = default_name
        self.legacy = legacy
        self.data_directory = data_directory.strip("/") if data_directory else None
        self.branch = _entry(branch, "branch")

    # -- metadata --------------------------------------------------------------------------------------------------

    def snapshot(self, snapshot_id: int) -> str:
        """Return the path of a snapshot's file."""
        return self._of_branch(f"snapshot/snapshot-{snapshot_id}")

    @property
    def snapshot_directory(self) -> str:
        """Directory that holds the snapshots of the branch."""
        return self._of_branch("snapshot")

    @property
    def latest_hint(self) -> str:
        """File with the id that may be that of the newest snapshot."""
        return self._of_branch("snapshot/LATEST")

    @property
    def earliest_hint(self) -> str:
        """File with the id that may be that of the oldest snapshot."""
        return self._of_branch("snapshot/EARLIEST")

    def schema(self, schema_id: int) -> str:
        """Return the path of a schema's file."""
        return self._of_branch(f"schema/schema-{schema_id}")

    @property
    def turn_in_store(self) -> str:
        """File of the commit turn in an object store; each commit lists its directory anyway."""
        return self._of_branch(f"schema/{COMMIT_TURN}")

    @property
    def turn_on_disk(self) -> str:
        """File that the writers of one machine lock for their commit turns."""
        return self._of_branch(f"snapshot/{COMMIT_TURN}")

    def tag(self, name: str) -> str:
        """Return the path of a tag's file."""
        return self._of_branch(f"tag/tag-{_entry(name, 'tag')}")

    def changelog(self, snapshot_id: int) -> str:
        """Return the path of a changelog whose snapshot has expired."""
        return self._of_branch(f"changelog/changelog-{snapshot_id}")

    def consumer(self, consumer_id: str) -> str:
        """Return the path of a consumer's file."""
        return self._of_branch(f"consumer/consumer-{_entry(consumer_id, 'consumer')}")

    def epoch(self, commit_user: str) -> str:
        """Return the path of the record of a stream's last epoch; Paimon has none."""
        return self._of_branch(f"epoch/epoch-{_entry(commit_user, 'commit user')}")

    def position(self, commit_user: str) -> str:
        """Return the path of the record of the position of a stream that is written to the table; Paimon has none."""
        return self._of_branch(f"position/position-{_entry(commit_user, 'commit user')}")

    @property
    def log_position(self) -> str:
        """File with the position of the table's snapshots in its log; Paimon has none."""
        return self._of_branch("log/LATEST")

    def branch_directory(self, name: str) -> str:
        """Return the directory of a branch with its snapshots, schemas and tags; the location for the main branch."""
        return self.location if name == MAIN_BRANCH else self._under(f"branch/branch-{_entry(name, 'branch')}")

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, a manifest list or an index manifest.

        Raises CorruptFileError for a name with directories.
        """
        return self._under(f"manifest/{entry_name(name, 'manifest')}")

    @property
    def index_directory(self) -> str:
        """Directory of the index files that are not beside the data files."""
        return self._under("index")

    def index(self, name: str) -> str:
        """Return the path of an index file; raises CorruptFileError for a name with directories."""
        return self._under(f"index/{entry_name(name, 'index')}")

    def statistics(self, name: str) -> str:
        """Return the path of a statistics file; raises CorruptFileError for a name with directories."""
        return self._under(f"statistics/{entry_name(name, 'statistics')}")

    # -- data ------------------------------------------------------------------------------------------------------

    def partition_spec(self, partition: bytes) -> dict[str, str]:
        """Return the text of each partition column's value, not escaped; null is the default name.

        No two partitions have the same specification, except a null and the text that is the default name.
        """
        from interbed.storage.base.row.binary_row import decode_row

        values = decode_row(partition, self.partition_types)
        return {
            name: self._text(value, data_type)
            for name, value, data_type in zip(self.partition_names, values, self.partition_types, strict=True)
        }

    def directory_spec(self, partition: bytes) -> dict[str, str]:
        """Return the specification of directories and metastores: blank values are the default name as well as null."""
        return self.in_directories(self.partition_spec(partition))

    def in_directories(self, spec: Mapping[str, str]) -> dict[str, str]:
        """Return a specification with the texts of directories, not escaped."""
        return {name: self.default_name if _BLANK.issuperset(text) else text for name, text in spec.items()}

    def readable_spec(self, partition: bytes) -> dict[str, str]:
        """Return the specification with dates as dates, even where the directory has a number of days."""
        names, types = self.partition_names, self.partition_types
        return TablePaths(self.location, names, types, self.default_name, legacy=False).partition_spec(partition)

    def readable_partition(self, partition: bytes) -> str:
        """Return the partition for errors, with dates as dates."""
        return ", ".join(f"{name}={value}" for name, value in self.readable_spec(partition).items())

    def partition_directory(self, partition: bytes) -> str:
        """Return the directory of a partition, relative to the location: `dt=2024-01-31/h=1`; '' without partitions."""
        return "/".join(f"{escape_path(n)}={escape_path(v)}" for n, v in self.directory_spec(partition).items())

    def bucket_directory(self, bucket_id: BucketId) -> str:
        """Return the directory that holds the data files of a bucket."""
        return self._under(self.relative_bucket(bucket_id))

    def relative_bucket(self, bucket_id: BucketId) -> str:
        """Return the directory of a bucket relative to the table's, or to an external path."""
        name = "postpone" if bucket_id.bucket == POSTPONE_BUCKET else str(bucket_id.bucket)
        parts = [self.data_directory, self.partition_directory(bucket_id.partition), f"bucket-{name}"]
        return "/".join(p for p in parts if p)

    def parse_partition_spec(self, spec: Mapping[str, object]) -> bytes:
        """Return the partition of a complete specification, whose values are Python values or the text of directories.

        None and the default name mean null. Raises InvalidInputError naming a missing or unknown column, or a value
        that does not fit its column.
        """
        from interbed.storage.base.row.binary_row import encode_row

        for name in spec:
            if name not in self.partition_names:
                raise InvalidInputError(
                    f"{name!r} is not a partition column; "
                    + (f"they are {', '.join(self.partition_names)}." if self.partition_names else "there is none.")
                )
        values: list[object] = []
        for name, data_type in zip(self.partition_names, self.partition_types, strict=True):
            if name not in spec:
                raise InvalidInputError(f"The partition specification lacks the column {name!r}.")
            values.append(self._value(name, spec[name], data_type))
        return encode_row(values, self.partition_types)

    # -- new names -------------------------------------------------------------------------------------------------

    def new_data_file_name(self, prefix: str, file_format: str) -> str:
        """Return a unique name of a data file: `<prefix><uuid>-0.<format>`."""
        # Each name has an identifier of its own: a counter would repeat itself in copies sent to other processes.
        return f"{prefix}{uuid.uuid4()}-0.{file_format}"

    def new_manifest_name(self) -> str:
        """Return a unique name of a manifest."""
        return f"manifest-{uuid.uuid4()}-0"

    def new_manifest_list_name(self) -> str:
        """Return a unique name of a manifest list."""
        return f"manifest-list-{uuid.uuid4()}-0"

    def new_index_manifest_name(self) -> str:
        """Return a unique name of an index manifest."""
        return f"index-manifest-{uuid.uuid4()}-0"

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _of_branch(self, relative: str) -> str:
        return self._under(relative if self.branch == MAIN_BRANCH else f"branch/branch-{self.branch}/{relative}")

    def _under(self, relative: str) -> str:
        return f"{self.location if self.location != '/' else ''}/{relative}"

    def _text(self, value: object, data_type: DataType) -> str:
        from interbed.storage.base.row.values import render_text

        return self.default_name if value is None else render_text(value, data_type, legacy=self.legacy)

    def _value(self, name: str, value: object, data_type: DataType) -> object:
        from interbed.storage.base.row.values import coerce, parse_text

        if value is None or value == self.default_name:
            return None
        try:
            if isinstance(value, str) and not is_atomic(data_type, *STRINGS):
                return parse_text(value, data_type)
            return coerce(value, data_type)
        except InvalidInputError as error:
            raise InvalidInputError(f"The partition column {name!r} can't take the value given: {error}.") from None


def _entry(name: str, what: str) -> str:
    """Return a name that follows a prefix; raises InvalidInputError for a name that leads into another directory."""
    try:
        return entry_name(name, what) if name else name
    except CorruptFileError:
        # With the prefix these are ordinary names.
        if name in (".", ".."):
            return name
        raise InvalidInputError(f"Not a {what} name: {name!r}. A name has no slashes and no NUL.") from None


def escape_path(text: str) -> str:
    """Return the text as a component of a path: control characters and special characters as `%XX`."""
    if _ESCAPED.isdisjoint(text):
        return text
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def unescape_path(text: str) -> str:
    """Return the text from which `escape_path` made a component of a path."""
    parts = text.split("%")
    result = parts[0]
    for part in parts[1:]:
        code = part[:2]
        if len(code) == 2 and all(c in "0123456789abcdefABCDEF" for c in code):
            result += chr(int(code, 16)) + part[2:]
        else:
            result += "%" + part
    return result


def numbers_of(names: Iterable[str], prefix: str) -> list[int]:
    """Return the numbers after the prefix, ascending; names of another form are skipped."""
    rests = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return sorted(int(rest) for rest in rests if rest.isascii() and rest.isdigit())


_MASK = 0xFFFFFFFF
_ENTROPY_BITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """Path of a new file, and the external path for its metadata: None for a file below the table's directory."""

    path: str
    external_path: str | None = None


class DataFilePlace:
    """Source of the paths of new files of one bucket; `directory` is the bucket's own.

    `relative` is the bucket's directory relative to the table.
    """

    def __init__(self, directory: str, external: ExternalPaths | None = None, relative: str = "") -> None:
        self.directory = directory
        self._external = external
        self._relative = relative
        # As in Paimon, begin at random: otherwise all short writers would put their one file below the first path.
        self._index = 0 if external is None else random.randrange(len(external.roots))

    def take(self, name: str) -> NewFile:
        """Return the path of the new file of that name."""
        external = self._external
        if external is None:
            return NewFile(path=f"{self.directory}/{name}")
        inner = f"{self._relative}/{name}"
        if external.strategy is ExternalPathStrategy.ENTROPY_INJECT:
            inner = f"{self._relative}/{entropy_directories(name)}/{name}"
        path = f"{self._next(external)}/{inner}"
        return NewFile(path=normalize_path(path), external_path=path)

    def _next(self, external: ExternalPaths) -> str:
        if external.weights is not None:
            return random.choices(external.roots, external.weights)[0]
        self._index = (self._index + 1) % len(external.roots)
        return external.roots[self._index]


def entropy_directories(name: str) -> str:
    """Return directories such as `1001/1101/0100/10011001`: the last 20 bits of the name's hash."""
    bits = f"{_murmur3(name.encode()) & _MASK >> 32 - _ENTROPY_BITS:0{_ENTROPY_BITS}b}"
    return "/".join((bits[:4], bits[4:8], bits[8:12], bits[12:]))


def _murmur3(data: bytes) -> int:
    """Return the MurmurHash3 x86, 32 bits, with seed 0, as in Guava."""
    state = 0
    whole = len(data) & ~3
    # Loop over the words of one file's name.
    for at in range(0, whole, 4):
        state ^= _mixed(int.from_bytes(data[at : at + 4], "little"))
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        state ^= _mixed(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _mixed(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK
