"""The figures of one bucket and the score of a table, against a naive model, compactions, and bounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.row.binary_row import encode_row
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.lsm.compact.strategy import Rewrite, pick_full, plan_unit
from interbed.storage.lsm.levels import Levels
from interbed.storage.meta.manifest.entry import DataFileMeta, FileSource
from interbed.storage.upkeep.append_compact import plan_append_compaction
from interbed.storage.upkeep.bucket_health import BucketHealth, BucketRules, bucket_health
from interbed.storage.upkeep.health import TableHealth, reasons_of, score_of

TARGET = 100
KEY = AtomicType(TypeRoot.INT, nullable=False)
KEYED = BucketRules(key_types=(KEY,), num_levels=4, target_bytes=TARGET, small_bytes=70, open_bytes=30)
APPENDED = replace(KEYED, key_types=())
ORDERED = replace(APPENDED, keep_order=True)
HERE = BucketId(b"", 0)
DAY = 86_400_000
_numbers = count()


def key(value: int) -> bytes:
    return encode_row((value,), (KEY,))


@dataclass(frozen=True)
class RangedFile:
    """A file with its key range as numbers, for the model."""

    least: int
    greatest: int
    meta: DataFileMeta


def file(least: int, greatest: int, level: int, *, size: int, rows: int = 10, deletes: int = 0) -> RangedFile:
    number = next(_numbers)
    meta = DataFileMeta(
        file_name=f"f-{number}.parquet",
        file_size=size,
        row_count=rows,
        min_key=key(least),
        max_key=key(greatest),
        min_sequence_number=number,
        max_sequence_number=number,
        schema_id=0,
        level=level,
        creation_time_millis=number,
        delete_row_count=deletes,
    )
    return RangedFile(least, greatest, meta)


@st.composite
def trees(draw: st.DrawFn) -> list[RangedFile]:
    """A bucket of a primary-key table: any key ranges in level 0, and ranges without overlap in each other level."""
    sizes, rows = st.integers(1, TARGET), st.integers(1, 20)

    def drawn(least: int, greatest: int, level: int) -> RangedFile:
        n = draw(rows)
        deletes = draw(st.integers(0, n)) if level < 3 else 0
        return file(least, greatest, level, size=draw(sizes), rows=n, deletes=deletes)

    found = []
    for _ in range(draw(st.integers(0, 5))):
        least = draw(st.integers(0, 40))
        found.append(drawn(least, least + draw(st.integers(0, 15)), 0))
    for level in (1, 2, 3):
        bounds = sorted(draw(st.sets(st.integers(0, 50), max_size=8)))
        found += [drawn(a, b, level) for a, b in zip(bounds[::2], bounds[1::2], strict=False)]
    return found


def marks(data: st.DataObject, files: Sequence[DataFileMeta]) -> dict[str, int | None]:
    chosen = data.draw(st.lists(st.sampled_from(files), unique_by=lambda f: f.file_name)) if files else []
    return {f.file_name: data.draw(st.one_of(st.none(), st.integers(0, f.row_count))) for f in chosen}


def health(
    files: Sequence[DataFileMeta], rules: BucketRules, vectors: dict[str, int | None] | None = None
) -> BucketHealth:
    return bucket_health(HERE, files, vectors or {}, rules, now_millis=DAY)


def modelled_runs(files: Sequence[RangedFile]) -> float:
    """Return the read amplification by counting the files that cover each key."""
    if not files:
        return 1.0
    total = sum(f.meta.file_size for f in files)
    weighed = 0
    left = sorted(files, key=lambda f: f.least)
    while left:
        section = [left.pop(0)]
        while left and left[0].least <= max(f.greatest for f in section):
            section.append(left.pop(0))
        reach = range(section[0].least, max(f.greatest for f in section) + 1)
        most = max(sum(f.least <= k <= f.greatest for f in section) for k in reach)
        weighed += most * sum(f.meta.file_size for f in section)
    return weighed / total


@given(st.data())
def test_the_figures_of_a_tree_equal_those_of_the_model(data: st.DataObject) -> None:
    files = data.draw(trees())
    metas = [f.meta for f in files]
    vectors = marks(data, metas)
    found = health(metas, KEYED, vectors)
    levels = {f.level for f in metas}
    fresh = [f for f in metas if f.level == 0]
    oldest = [f for f in metas if f.level == max(levels)] if levels - {0} else fresh[:1]
    assert found.runs == len(fresh) + len(levels - {0})
    assert found.files == len(metas)
    assert found.bytes == sum(f.file_size for f in metas)
    assert found.rows == sum(f.row_count for f in metas)
    assert found.level0_files == len(fresh)
    assert found.small_files == len([f for f in metas if f.file_size < 70])
    assert found.vector_files == len(vectors)
    assert found.delete_rows == sum(f.delete_row_count or 0 for f in metas) + sum(v or 0 for v in vectors.values())
    assert found.duplicate_bytes == found.bytes - sum(f.file_size for f in oldest)
    assert 0 <= found.pending_bytes <= found.bytes
    assert 0 <= found.spare_files <= max(0, found.files - 1)
    assert abs(found.read_amplification - modelled_runs(files)) < 1e-9
    assert (found.last_full_millis is None) == (3 not in levels)


@given(trees())
def test_reads_that_skip_level_0_need_no_merge_of_the_other_levels(files: list[RangedFile]) -> None:
    found = health([f.meta for f in files], replace(KEYED, skips_level_0=True))
    merged = health([f.meta for f in files], KEYED)
    assert 1.0 <= found.read_amplification <= merged.read_amplification
    if not any(f.meta.level == 0 for f in files):
        assert found.read_amplification == 1.0


@st.composite
def lists(draw: st.DrawFn) -> list[DataFileMeta]:
    """A bucket of an append table, as a list of files."""
    sizes = draw(st.lists(st.integers(1, TARGET), max_size=8))
    return [file(0, 0, 0, size=size, rows=draw(st.integers(1, 20))).meta for size in sizes]


@given(st.data())
def test_an_append_table_is_scored_by_the_savings_of_joining_small_files(data: st.DataObject) -> None:
    files = data.draw(lists())
    vectors = marks(data, files)
    found = health(files, APPENDED, vectors)
    joined = [f.file_size for f in files if f.file_size < 70 or f.file_name in vectors]
    if len(joined) < 2 and not any(f.file_name in vectors for f in files):
        joined = []
    after = -(-sum(joined) // TARGET)
    spare = max(0, len(joined) - after)
    cost, least = (found.bytes + 30 * n for n in (len(files), len(files) - spare))
    assert (found.runs, found.level0_files, found.duplicate_bytes) == (1, 0, 0)
    assert (found.spare_files, found.pending_bytes) == (spare, sum(joined))
    assert found.read_amplification == (cost / least if least else 1.0) >= 1.0


@given(lists())
def test_ordered_files_are_joined_only_with_their_neighbours(files: list[DataFileMeta]) -> None:
    assert health(files, ORDERED).spare_files <= health(files, APPENDED).spare_files
    large = [replace(f, file_size=TARGET) for f in files]
    apart = [each for pair in zip(files, large, strict=True) for each in pair]
    apart = [replace(f, min_sequence_number=i, max_sequence_number=i) for i, f in enumerate(apart)]
    assert health(apart, ORDERED).pending_bytes == 0


def compacted(files: Sequence[DataFileMeta], vectors: dict[str, int | None], rules: BucketRules) -> list[DataFileMeta]:
    """Return the files after a full compaction that keeps the bytes and drops deleted rows and deletes."""
    levels = Levels.of(files, rules.num_levels)
    pick = pick_full(levels) if rules.key_types else None
    groups: Sequence[Sequence[DataFileMeta]]
    if not rules.key_types:
        groups = plan_append_compaction(
            files, small_file_bytes=rules.small_bytes, keep_order=rules.keep_order, thinned=vectors
        )
    elif pick is None:
        groups = [[f] for f in files if f.file_name in vectors]
    else:
        unit = plan_unit(pick, levels, rules.key_types, small_file_bytes=rules.small_bytes)
        groups = [] if unit is None else [step.files for step in unit.steps if isinstance(step, Rewrite)]
    rewritten = {f.file_name for group in groups for f in group}
    top = levels.max_level if rules.key_types else 0
    after = [f.upgraded(top) for f in files if f.file_name not in rewritten]
    for group in groups:
        size = sum(f.file_size for f in group)
        gone = sum((f.delete_row_count or 0) + (vectors.get(f.file_name) or 0) for f in group)
        rows = max(0, sum(f.row_count for f in group) - gone)
        first = min(group, key=lambda f: f.min_sequence_number)
        made = rules.files_for(size)
        for i in range(made):
            # All files except the last have the target size.
            share = TARGET if i < made - 1 else size - TARGET * (made - 1)
            name = f"f-{next(_numbers)}.parquet"
            after.append(
                replace(
                    first.upgraded(top),
                    file_name=name,
                    file_size=share,
                    row_count=rows // made + (rows % made if i == 0 else 0),
                    delete_row_count=0,
                    file_source=FileSource.COMPACT,
                )
            )
    return after


def after_compaction(files: Sequence[DataFileMeta], vectors: dict[str, int | None], rules: BucketRules) -> BucketHealth:
    done = compacted(files, vectors, rules)
    left = {f.file_name for f in done}
    return health(done, rules, {name: rows for name, rows in vectors.items() if name in left})


def drawn_bucket(data: st.DataObject, rules: BucketRules) -> tuple[list[DataFileMeta], dict[str, int | None]]:
    files = [f.meta for f in data.draw(trees())] if rules.key_types else data.draw(lists())
    return files, marks(data, files)


@given(st.data(), st.sampled_from([KEYED, replace(KEYED, skips_level_0=True), APPENDED, ORDERED]))
def test_a_full_compaction_never_makes_a_table_worse(data: st.DataObject, rules: BucketRules) -> None:
    buckets = [drawn_bucket(data, rules) for _ in range(data.draw(st.integers(1, 3)))]
    before = TableHealth(by_bucket=tuple(health(files, rules, vectors) for files, vectors in buckets))
    chosen = data.draw(st.sets(st.sampled_from(range(len(buckets)))))
    by_bucket = list(before.by_bucket)
    for i in sorted(chosen):
        by_bucket[i] = after_compaction(*buckets[i], rules)
        assert by_bucket[i].read_amplification == 1.0
        assert by_bucket[i].spare_files == 0
    after = TableHealth(by_bucket=tuple(by_bucket))
    assert after.score >= before.score
    assert after.read_amplification <= before.read_amplification + 1e-9
    assert 0 <= before.score <= after.score <= 100
    if len(chosen) == len(buckets):
        assert after.read_amplification == 1.0
        assert not {r.name for r in after.reasons} & {"read amplification", "small files"}


@dataclass(frozen=True)
class HealthFigures:
    """Figures that the score of a table depends on; the defaults are those of a healthy table."""

    has_primary_key: bool = True
    read_amplification: float = 1.0
    files: int = 0
    spare_files: int = 0
    rows: int = 0
    delete_rows: int = 0
    delete_ratio: float = 0.0
    snapshots_due: int = 0
    manifests_due: int = 0
    statistics_rows: int | None = None
    rows_since_statistics: int | None = None


WORSE: dict[str, Callable[[HealthFigures], HealthFigures]] = {
    "read amplification": lambda f: replace(f, read_amplification=f.read_amplification + 1),
    "small files": lambda f: replace(f, files=f.files + 1, spare_files=f.spare_files + 1),
    "deleted rows": lambda f: replace(f, delete_ratio=min(1.0, f.delete_ratio + 0.1)),
    "expiry": lambda f: replace(f, snapshots_due=f.snapshots_due + 20),
    "manifests": lambda f: replace(f, manifests_due=f.manifests_due + 10),
    "statistics": lambda f: replace(f, rows_since_statistics=10 * (f.statistics_rows or 0) + 10),
}
MOST = {
    "read amplification": 50,
    "small files": 20,
    "deleted rows": 15,
    "expiry": 5,
    "manifests": 5,
    "statistics": 5,
}


@given(st.data())
def test_the_score_is_100_minus_all_penalties_and_falls_as_figures_get_worse(
    data: st.DataObject,
) -> None:
    numbers = st.integers(0, 10**6)
    files = data.draw(numbers)
    figures = HealthFigures(
        read_amplification=data.draw(st.floats(1, 100)),
        files=files,
        spare_files=data.draw(st.integers(0, max(0, files - 1))),
        delete_ratio=data.draw(st.floats(0, 1)),
        snapshots_due=data.draw(numbers),
        manifests_due=data.draw(numbers),
        statistics_rows=data.draw(numbers),
        rows_since_statistics=data.draw(numbers),
    )
    reasons = reasons_of(figures)
    assert score_of(figures) == 100 - sum(r.points for r in reasons)
    assert 0 <= score_of(figures) <= 100
    assert all(0 < r.points <= MOST[r.name] for r in reasons)
    assert [r.points for r in reasons] == sorted((r.points for r in reasons), reverse=True)
    name = data.draw(st.sampled_from(sorted(WORSE)))
    assert score_of(WORSE[name](figures)) <= score_of(figures)


def test_each_penalty_has_its_name_its_figures_and_its_bound() -> None:
    assert score_of(HealthFigures()) == 100
    assert reasons_of(HealthFigures()) == ()
    for name, worsen in WORSE.items():
        figures = worsen(HealthFigures(statistics_rows=0))
        for _ in range(100):
            figures = worsen(figures)
        (reason,) = reasons_of(figures)
        assert (reason.name, reason.points) == (name, MOST[name])
    worst = HealthFigures(has_primary_key=False, read_amplification=3.0)
    assert str(reasons_of(worst)[0]) == (
        "-20 read amplification: a read costs 3.0 times what it would after a full compaction"
    )


def test_all_rows_that_wait_for_a_bucket_are_pending() -> None:
    waiting = [file(0, 0, 0, size=50).meta for _ in range(3)]
    found = bucket_health(BucketId(b"", -2), waiting, {}, KEYED)
    assert (found.runs, found.read_amplification, found.pending_bytes, found.spare_files) == (3, 4.0, 150, 3)
    assert TableHealth(by_bucket=(found,)).score == 50


def test_an_empty_table_is_healthy() -> None:
    empty = TableHealth()
    assert (empty.score, empty.reasons, empty.read_amplification, empty.runs_max) == (100, (), 1.0, 0)
    assert str(empty) == "health 100 of 100, no snapshot"
