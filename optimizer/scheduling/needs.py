"""Settings of a scheduler, and rules that decide which work is due for a table by its health, options and processes.

Times are milliseconds. The rules do no I/O. `trigger_text` shows the figures of a rule beside their bounds (`3 sorted
runs, due above 5`), also when nothing is due.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from interbed.optimizer.flow.process import WorkKind, WorkNeed
from interbed.optimizer.flow.tables import TableMeasurement, TableState
from interbed.storage.meta.paths import POSTPONE_BUCKET


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Leases, timeouts, back-offs and intervals.

    `lease` is the time without a heartbeat after which a scheduler, a worker or an attempt counts as lost. An attempt
    may take `task_timeout` at most. The back-off of a table after a failure is `pause_first`, or `pause_gave_way` after
    a conflict with a writer; it doubles with each further failure up to `pause_most`. With `orphans_interval` None
    orphan files are never removed.
    """

    lease: int = 60_000
    task_timeout: int = 3_600_000
    attempts: int = 3
    pause_first: int = 60_000
    pause_most: int = 3_600_000
    pause_gave_way: int = 2_000
    expire_interval: int = 600_000
    orphans_interval: int | None = 86_400_000
    history: int = 7 * 86_400_000
    measured_at_once: int = 200


_TRIGGER = "num-sorted-run.compaction-trigger"
_TRIGGER_DEFAULT = 5
_LEAST_FILES = "compaction.min.file-num"
_REWRITE_ALL = "compaction.force-rewrite-all-files"
_TARGET = "target-file-size"
_FEW_RUNS = "2"
_PART_THAT_AGES = 10
"""Statistics are stale once the rows added or deleted are 1/10 of the rows that they counted."""

_HEAD_START_MILLIS = 600_000
"""Compactions precede upkeep that became due up to this time before them, since they make reads faster."""

_BY_AGE = (WorkKind.EXPIRE, WorkKind.ORPHANS)
"""Kinds that become due with time, also without commits."""

_EXPIRING = ("partition.expiration-time", "tag.automatic-creation", "consumer.expiration-time")
_UNSEEN = {"deletion-vectors.enabled": "true", "merge-engine": "first-row"}
"""Options with which readers skip level 0 until it is compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueWork:
    """The needs of a table in their order, and when to decide again without a commit (epoch milliseconds)."""

    needs: tuple[WorkNeed, ...]
    next_check_millis: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _RuleInput:
    """Arguments of a rule: one table at one time."""

    state: TableState
    found: TableMeasurement
    settings: SchedulerSettings
    now: int

    def is_settled(self, kind: WorkKind) -> bool:
        """Return whether there was no commit since the kind was done."""
        settled = None if kind in _BY_AGE else self.state.settled.get(kind)
        return settled is not None and settled == self.found.health.snapshot_id

    def since(self, kind: WorkKind) -> int | None:
        """Return the milliseconds since the kind was done, or since its first interval began; None for neither."""
        last = self.state.last.get(kind, self.state.counted_from.get(kind))
        return None if last is None else self.now - last


@dataclass(frozen=True, slots=True, kw_only=True)
class KindAnswer:
    """Answer of the rule of one kind of work: the need when it is due, and when it may become due without a commit
    (epoch milliseconds). `is_settled`: it would be due, but there was no commit since it was done.
    """

    kind: WorkKind
    need: WorkNeed | None
    next_check_millis: int | None
    is_settled: bool


def needs_of(state: TableState, found: TableMeasurement, settings: SchedulerSettings, now: int) -> DueWork:
    """Return the needs of a table. A kind that was due before keeps its time, also as a wider compaction."""
    answers = answers_of(state, found, settings, now)
    checks = [answer.next_check_millis for answer in answers if answer.next_check_millis is not None]
    needs = [answer.need for answer in answers if answer.need is not None]
    return DueWork(needs=tuple(in_order(needs)), next_check_millis=min(checks, default=None))


def answers_of(
    state: TableState, found: TableMeasurement, settings: SchedulerSettings, now: int
) -> tuple[KindAnswer, ...]:
    """Apply the rules of all kinds; there are no answers for a disabled table, or one without a snapshot."""
    if not found.optimizing.enabled or found.health.snapshot_id is None:
        return ()
    asked = _RuleInput(state=state, found=found, settings=settings, now=now)
    due_before = {_queue_kind(need.kind): need.due_millis for need in state.needs}
    answers = []
    for kind, rule in _RULES.items():
        need, check = rule(asked)
        settled = need is not None and asked.is_settled(kind)
        if need is not None:
            need = None if settled else replace(need, due_millis=due_before.get(_queue_kind(kind), now))
        answers.append(KindAnswer(kind=kind, need=need, next_check_millis=check, is_settled=settled))
    return tuple(answers)


def need_asked_for(needs: Sequence[WorkNeed], kind: WorkKind, now: int) -> WorkNeed:
    """Return the need for a requested kind: the one that is due, or a new one."""
    due = next((need for need in needs if need.kind is kind), None)
    return due or WorkNeed(kind=kind, reason="asked for", due_millis=now)


def in_order(needs: Sequence[WorkNeed]) -> list[WorkNeed]:
    """Order the needs of a table: of compactions only the widest one, and upkeep after it."""
    compactions = [need for need in needs if need.kind.is_compaction]
    widest = max(compactions, key=lambda need: need.kind.width, default=None)
    kept = [need for need in needs if not need.kind.is_compaction or need is widest]
    return sorted(kept, key=lambda n: (n.due_millis + (0 if n.kind.is_compaction else _HEAD_START_MILLIS), n.kind))


def _queue_kind(kind: WorkKind) -> WorkKind:
    """Return one kind for all compactions, since a wider one includes the work of the others."""
    return WorkKind.FULL if kind.is_compaction else kind


_Answer = tuple[WorkNeed | None, int | None]
_NOTHING: _Answer = (None, None)


def runs_tolerated(found: TableMeasurement) -> int:
    """Return the most sorted runs of a bucket of a primary-key table without a minor compaction."""
    trigger = _number(found.options, _TRIGGER, _TRIGGER_DEFAULT)
    bound = found.optimizing.max_read_amplification
    return trigger if bound is None else max(1, min(trigger, int(bound)))


def _minor(asked: _RuleInput) -> _Answer:
    health, optimizing = asked.found.health, asked.found.optimizing
    buckets = health.by_bucket
    most = optimizing.minor_file_count
    if health.has_primary_key:
        trigger = runs_tolerated(asked.found)
        waiting = sum(b.files for b in buckets if b.bucket == POSTPONE_BUCKET)
        if waiting:
            return _need(asked, WorkKind.MINOR, f"{waiting} file(s) of rows that wait for their buckets")
        runs = max((b.runs for b in buckets), default=0)
        fragments = max((b.level0_files for b in buckets), default=0)
        unseen = any(asked.found.options.get(key) == value for key, value in _UNSEEN.items())
        if runs > trigger:
            return _need(asked, WorkKind.MINOR, f"{runs} sorted runs > {trigger}", {_TRIGGER: str(trigger)})
        if fragments and unseen:
            reason = f"{fragments} file(s) of level 0, which are not read before they are compacted"
            return _need(asked, WorkKind.MINOR, reason)
        if fragments >= most:
            return _need(asked, WorkKind.MINOR, f"{fragments} files of level 0 >= {most}", {_TRIGGER: _FEW_RUNS})
        options, least = {_TRIGGER: _FEW_RUNS}, 1
    else:
        fragments = max((b.small_files for b in buckets), default=0)
        if fragments >= most:
            return _need(asked, WorkKind.MINOR, f"{fragments} small files >= {most}", {_LEAST_FILES: _FEW_RUNS})
        options, least = {_LEAST_FILES: _FEW_RUNS}, 2
    return _by_interval(asked, WorkKind.MINOR, optimizing.minor_interval_millis, fragments >= least, options)


def _major(asked: _RuleInput) -> _Answer:
    ratio = asked.found.optimizing.major_duplicate_ratio
    worst = max((b.delete_ratio for b in asked.found.health.by_bucket), default=0.0)
    if worst <= 0.0 or worst < ratio:
        return _NOTHING
    return _need(asked, WorkKind.MAJOR, f"{worst:.0%} of the records of a bucket are deleted or deletes >= {ratio:.0%}")


def _full(asked: _RuleInput) -> _Answer:
    health, optimizing = asked.found.health, asked.found.optimizing
    interval = optimizing.full_interval_millis
    if interval is None or not health.files:
        return _NOTHING
    known = (health.last_full_millis, asked.state.last.get(WorkKind.FULL))
    last = max((millis for millis in known if millis is not None), default=None)
    if last is not None and asked.now - last < interval:
        return None, last + interval
    since = "never" if last is None else f"{(asked.now - last) // 1000} s ago"
    rewrite = {_REWRITE_ALL: "true"} if optimizing.full_rewrites_all_files else {}
    return _need(asked, WorkKind.FULL, f"last full compaction {since}, due every {interval // 1000} s", rewrite)


def _expire(asked: _RuleInput) -> _Answer:
    health, interval = asked.found.health, asked.settings.expire_interval
    since = asked.since(WorkKind.EXPIRE)
    wanted = [key for key in _EXPIRING if asked.found.options.get(key, "none") != "none"]
    checks = [asked.now + interval] if wanted else []
    if health.next_expiry_millis is not None:
        # At exactly this time the snapshot is not expired yet.
        checks.append(max(health.next_expiry_millis + 1, asked.now + interval))
    next_check = min(checks, default=None)
    if since is not None and since < interval:
        return None, asked.now - since + interval if health.snapshots_due or wanted else next_check
    if health.snapshots_due:
        return _need(asked, WorkKind.EXPIRE, f"{health.snapshots_due} of {health.snapshots} snapshots have expired")
    if wanted:
        return _need(asked, WorkKind.EXPIRE, f"due every {interval // 1000} s for {', '.join(wanted)}")[0], next_check
    return None, next_check


def _orphans(asked: _RuleInput) -> _Answer:
    interval = asked.settings.orphans_interval
    if interval is None:
        return _NOTHING
    return _by_interval(asked, WorkKind.ORPHANS, interval, True, {})


def _manifests(asked: _RuleInput) -> _Answer:
    due = asked.found.health.manifests_due
    if not due:
        return _NOTHING
    return _need(asked, WorkKind.MANIFESTS, f"{due} small manifests more than commits should leave")


def _analyze(asked: _RuleInput) -> _Answer:
    counted, since = asked.found.health.statistics_rows, asked.found.health.rows_since_statistics or 0
    if counted is None or since * _PART_THAT_AGES <= counted:
        return _NOTHING
    return _need(asked, WorkKind.ANALYZE, f"{since} rows came or went since {counted} were counted")


_RULES: Mapping[WorkKind, Callable[[_RuleInput], _Answer]] = {
    WorkKind.MINOR: _minor,
    WorkKind.MAJOR: _major,
    WorkKind.FULL: _full,
    WorkKind.EXPIRE: _expire,
    WorkKind.ORPHANS: _orphans,
    WorkKind.MANIFESTS: _manifests,
    WorkKind.ANALYZE: _analyze,
}


def _need(asked: _RuleInput, kind: WorkKind, reason: str, options: Mapping[str, str] | None = None) -> _Answer:
    wanted = dict(options or {})
    if kind.is_compaction and asked.found.optimizing.target_size is not None:
        wanted[_TARGET] = f"{asked.found.optimizing.target_size} b"
    return WorkNeed(kind=kind, reason=reason, due_millis=asked.now, options=wanted), None


def _by_interval(
    asked: _RuleInput, kind: WorkKind, interval: int | None, has_work: bool, options: Mapping[str, str]
) -> _Answer:
    """Return a need when the interval has passed since the kind was last done, or began (TableBoard.measured)."""
    if interval is None or not has_work or asked.is_settled(kind):
        return _NOTHING
    since = asked.since(kind)
    if since is not None and since >= interval:
        last = asked.state.last.get(kind)
        when = "never done" if last is None else f"last {since // 1000} s ago"
        return _need(asked, kind, f"{when}, due every {interval // 1000} s", options)
    return None, asked.now + interval - (since or 0)


def _number(options: Mapping[str, str], key: str, default: int) -> int:
    text = options.get(key, "")
    return int(text) if text.strip().isdigit() else default


def trigger_text(kind: WorkKind, found: TableMeasurement, settings: SchedulerSettings) -> str:
    """Return the figures of a kind's rule beside their bounds."""
    health, optimizing = found.health, found.optimizing
    if kind is WorkKind.MINOR:
        return _minor_trigger(found)
    if kind is WorkKind.MAJOR:
        worst = max((b.delete_ratio for b in health.by_bucket), default=0.0)
        return f"{worst:.0%} deleted in the worst bucket, due from {optimizing.major_duplicate_ratio:.0%}"
    if kind is WorkKind.FULL:
        interval = optimizing.full_interval_millis
        return "self-optimizing.full.trigger.interval is not set" if interval is None else f"due {_every(interval)}"
    if kind is WorkKind.EXPIRE:
        at_most = _every(settings.expire_interval)
        return f"{health.snapshots_due} of {health.snapshots} snapshots have expired; at most {at_most}"
    if kind is WorkKind.ORPHANS:
        interval = settings.orphans_interval
        return "never looked for" if interval is None else f"due {_every(interval)}"
    if kind is WorkKind.MANIFESTS:
        return f"{health.manifests} manifests, {health.manifests_due} more than commits should leave"
    if kind is WorkKind.ANALYZE:
        counted, since = health.statistics_rows, health.rows_since_statistics or 0
        if counted is None:
            return "ANALYZE never ran"
        return f"{since} rows came or went since {counted} were counted, due from a tenth"
    return "when it is asked for"


def _minor_trigger(found: TableMeasurement) -> str:
    health, optimizing = found.health, found.optimizing
    most, interval = optimizing.minor_file_count, optimizing.minor_interval_millis
    by_time = "" if interval is None else f", for fewer {_every(interval)}"
    if not health.has_primary_key:
        small = max((b.small_files for b in health.by_bucket), default=0)
        return f"{small} small files, due from {most}{by_time}"
    fragments = max((b.level0_files for b in health.by_bucket), default=0)
    tolerated = runs_tolerated(found)
    return (
        f"{health.runs_max} sorted runs, due above {tolerated}; {fragments} files of level 0, due from {most}{by_time}"
    )


def _every(millis: int) -> str:
    return f"every {millis // 1000} s"
