"""Conversions between the structures of thrift_idl/optimizing.thrift and the optimizer's values."""

from typing import Any

from interbed.optimizer.flow.process import ResultStatus, TaskAssignment, TaskFigures, TaskOutcome, TaskRef, WorkKind
from interbed.thrift_idl.optimizing import ttypes

_TEXT_MAX = 4000
_STATUSES = {
    ResultStatus.ACCEPTED: ttypes.Verdict.ACCEPTED,
    ResultStatus.SUPERSEDED: ttypes.Verdict.SUPERSEDED,
    ResultStatus.UNKNOWN: ttypes.Verdict.UNKNOWN,
}
_STATUSES_BY_NUMBER = {number: status for status, number in _STATUSES.items()}


def ref_to_wire(ref: TaskRef) -> Any:
    """Return the TaskRef structure of an attempt."""
    return ttypes.TaskRef(process=ref.process, number=ref.number, attempt=ref.attempt)


def ref_of_wire(ref: Any) -> TaskRef:
    """Return the attempt of a TaskRef structure."""
    return TaskRef(process=ref.process, number=ref.number, attempt=ref.attempt)


def assignment_to_wire(given: TaskAssignment) -> Any:
    """Return the Assignment structure of an assignment."""
    return ttypes.Assignment(
        ref=ref_to_wire(given.ref),
        table=given.table,
        kind=given.kind.value,
        payload=given.payload,
        leaseMillis=given.lease_millis,
    )


def assignment_of_wire(given: Any) -> TaskAssignment:
    """Return the assignment of an Assignment structure. Raises ValueError for an unknown kind of work."""
    return TaskAssignment(
        ref=ref_of_wire(given.ref),
        table=given.table,
        kind=WorkKind(given.kind),
        payload=given.payload,
        lease_millis=given.leaseMillis,
    )


def outcome_to_wire(outcome: TaskOutcome) -> Any:
    """Return the Outcome structure of an outcome."""
    figures = outcome.figures
    return ttypes.Outcome(
        result=outcome.result,
        figures=ttypes.Figures(
            bytesIn=figures.bytes_in,
            bytesOut=figures.bytes_out,
            filesIn=figures.files_in,
            filesOut=figures.files_out,
        ),
        failure=None if outcome.failure is None else storable(outcome.failure),
    )


def outcome_of_wire(outcome: Any) -> TaskOutcome:
    """Return the outcome of an Outcome structure."""
    figures = outcome.figures
    return TaskOutcome(
        result=outcome.result,
        figures=TaskFigures(
            bytes_in=figures.bytesIn,
            bytes_out=figures.bytesOut,
            files_in=figures.filesIn,
            files_out=figures.filesOut,
        ),
        failure=None if outcome.failure is None else storable(outcome.failure),
    )


def status_to_wire(status: ResultStatus) -> int:
    """Return the number of a status on the wire."""
    number: int = _STATUSES[status]
    return number


def status_of_wire(number: int) -> ResultStatus:
    """Return the status of a number; an unknown one is UNKNOWN, with which files stay."""
    return _STATUSES_BY_NUMBER.get(number, ResultStatus.UNKNOWN)


def storable(text: str, most: int = _TEXT_MAX) -> str:
    """Return a text of another process in a form that databases accept: cut, and without NUL and surrogates."""
    return text[:most].encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
