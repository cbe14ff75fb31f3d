"""Between the structures of thrift_idl/optimizing.thrift and the optimizer's values."""

from typing import Any

from interbed.optimizer.flow.process import Assignment, TaskFigures, TaskOutcome, TaskRef, Verdict, WorkKind
from interbed.thrift_idl.optimizing import ttypes

_TEXT_MAX = 4000
_VERDICTS = {
    Verdict.ACCEPTED: ttypes.Verdict.ACCEPTED,
    Verdict.SUPERSEDED: ttypes.Verdict.SUPERSEDED,
    Verdict.UNKNOWN: ttypes.Verdict.UNKNOWN,
}
_VERDICTS_BY_NUMBER = {number: verdict for verdict, number in _VERDICTS.items()}


def ref_to_wire(ref: TaskRef) -> Any:
    """A TaskRef structure."""
    return ttypes.TaskRef(process=ref.process, number=ref.number, attempt=ref.attempt)


def ref_of_wire(ref: Any) -> TaskRef:
    """The attempt of a TaskRef structure."""
    return TaskRef(process=ref.process, number=ref.number, attempt=ref.attempt)


def assignment_to_wire(given: Assignment) -> Any:
    """An Assignment structure."""
    return ttypes.Assignment(
        ref=ref_to_wire(given.ref),
        table=given.table,
        kind=given.kind.value,
        payload=given.payload,
        leaseMillis=given.lease_millis,
    )


def assignment_of_wire(given: Any) -> Assignment:
    """What an Assignment structure gives. ValueError for a kind of work that is not known here."""
    return Assignment(
        ref=ref_of_wire(given.ref),
        table=given.table,
        kind=WorkKind(given.kind),
        payload=given.payload,
        lease_millis=given.leaseMillis,
    )


def outcome_to_wire(outcome: TaskOutcome) -> Any:
    """An Outcome structure."""
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
    """What an Outcome structure brings."""
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


def verdict_to_wire(verdict: Verdict) -> int:
    """The number of a verdict."""
    number: int = _VERDICTS[verdict]
    return number


def verdict_of_wire(number: int) -> Verdict:
    """The verdict of a number; one that is not known here leaves files where they are."""
    return _VERDICTS_BY_NUMBER.get(number, Verdict.UNKNOWN)


def storable(text: str, most: int = _TEXT_MAX) -> str:
    """A text that came from elsewhere as databases take it: cut, without what is no character."""
    return text[:most].encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
