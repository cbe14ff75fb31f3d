"""Hypothesis strategies for all values that a journal stores."""

from typing import Any

from hypothesis import strategies as st

from interbed.optimizer.flow.process import (
    CleanupMode,
    Process,
    ProcessState,
    TableSummary,
    Task,
    TaskFigures,
    TaskState,
    WorkKind,
    WorkNeed,
)
from interbed.optimizer.flow.tables import GroupPolicy, RequestKind, ResourceGroup, TableRequest, TableState, Worker

LETTERS = "aB1._$/ \"'\\%\n\u00e9e\u0301\u2028\ufffd\U0001f5c3"
NAMES = st.text(LETTERS, min_size=1, max_size=12)
TEXTS = st.text(LETTERS + "\0\udcff", max_size=12)
"""Text other than names may have characters that databases do not support."""
COUNTS = st.integers(min_value=0, max_value=2**31 - 1)
BYTES = st.integers(min_value=0, max_value=2**63 - 1)
MILLIS = st.integers(min_value=0, max_value=2**63 - 1)
NUMBERS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
KINDS = st.sampled_from(WorkKind)
STATES = st.sampled_from(ProcessState)
OPEN = STATES.filter(lambda state: not state.has_ended)

standings = st.builds(
    TableSummary,
    snapshot_id=st.none() | BYTES,
    score=st.integers(min_value=-(2**63), max_value=2**63 - 1),
    read_amplification=NUMBERS | st.just(float("inf")),
    pending_bytes=BYTES,
)
needs = st.builds(
    WorkNeed, kind=KINDS, reason=TEXTS, due_millis=MILLIS, options=st.dictionaries(TEXTS, TEXTS, max_size=2)
)
figures = st.builds(TaskFigures, bytes_in=BYTES, bytes_out=BYTES, files_in=BYTES, files_out=BYTES)


def tables(names: st.SearchStrategy[str] = NAMES) -> st.SearchStrategy[TableState]:
    """Generate states of tables."""
    return st.builds(
        TableState,
        name=names,
        group=TEXTS,
        quota=NUMBERS,
        enabled=st.booleans(),
        paused=st.booleans(),
        summary=st.none() | standings,
        measured_millis=st.none() | MILLIS,
        reasons=st.lists(TEXTS, max_size=2).map(tuple),
        needs=st.lists(needs, max_size=2).map(tuple),
        requested=st.none() | KINDS,
        last=st.dictionaries(KINDS, MILLIS, max_size=2),
        settled=st.dictionaries(KINDS, BYTES, max_size=2),
        failures=COUNTS,
        not_before_millis=MILLIS,
        next_check_millis=st.none() | MILLIS,
        unreadable=st.none() | TEXTS,
    )


@st.composite
def processes(
    draw: st.DrawFn,
    ids: st.SearchStrategy[str] = NAMES,
    names: st.SearchStrategy[str] = NAMES,
    states: st.SearchStrategy[ProcessState] = STATES,
    times: st.SearchStrategy[int] = MILLIS,
) -> Process:
    """Generate processes in all states; those that have ended have an end time."""
    state = draw(states)
    given: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {
                "id": ids,
                "table": names,
                "kind": KINDS,
                "group": TEXTS,
                "reason": TEXTS,
                "created_millis": times,
                "before": standings,
                "options": st.dictionaries(TEXTS, TEXTS, max_size=2),
                "ending": st.none() | STATES,
                "cleanup": st.none() | st.sampled_from(CleanupMode),
                "tasks": COUNTS,
                "seconds": NUMBERS,
                "figures": figures,
                "snapshot_id": st.none() | BYTES,
                "after": st.none() | standings,
                "failure": st.none() | TEXTS,
            }
        )
    )
    return Process(state=state, ended_millis=draw(times) if state.has_ended else None, **given)


def tasks(ids: st.SearchStrategy[str] = NAMES, numbers: st.SearchStrategy[int] = COUNTS) -> st.SearchStrategy[Task]:
    """Generate tasks of processes."""
    return st.builds(
        Task,
        process=ids,
        number=numbers,
        payload=st.binary(max_size=20),
        cost=BYTES,
        state=st.sampled_from(TaskState),
        attempt=COUNTS,
        worker=st.none() | TEXTS,
        started_millis=st.none() | MILLIS,
        lease_until_millis=st.none() | MILLIS,
        result=st.none() | st.binary(max_size=20),
        figures=figures,
        failure=st.none() | TEXTS,
    )


workers = st.builds(
    Worker,
    id=TEXTS,
    group=TEXTS,
    threads=COUNTS,
    memory=BYTES,
    place=TEXTS,
    since_millis=MILLIS,
    lease_until_millis=MILLIS,
    running=COUNTS,
)
groups = st.builds(
    ResourceGroup,
    name=TEXTS,
    workers=COUNTS,
    threads=st.integers(min_value=1),
    memory=st.integers(min_value=1),
    policy=st.sampled_from(GroupPolicy),
    window_millis=st.integers(min_value=1),
)


def requests(names: st.SearchStrategy[str] = NAMES) -> st.SearchStrategy[TableRequest]:
    """Generate requests before they have an id."""
    return st.builds(TableRequest, table=names, kind=st.sampled_from(RequestKind), work=st.none() | KINDS)
