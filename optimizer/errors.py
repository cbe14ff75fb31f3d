"""Errors of the optimizer, each with the way out."""

from interbed.storage.base.errors import InterbedError, InvalidInputError


class JournalError(InterbedError):
    """The journal could not be read or written; the scheduler's state in memory is not valid any more.

    It is unknown whether changes that were being stored are in the journal. Storing the same changes again is safe.
    """


class LeaseLostError(JournalError):
    """Another scheduler has taken over, or this one has released its lease; this one changes nothing any more."""


class SchedulerEndedError(JournalError):
    """The journal refused changes of this scheduler, whose state is therefore ahead of the journal.

    The caller creates another scheduler from the journal.
    """


class NotOnDutyError(InterbedError):
    """This process does not schedule: another one does, or it has not begun yet."""


class NoSchedulerError(InterbedError):
    """No address answers, or none of the processes that answer schedules. The call can be tried again."""


class UnknownWorkerError(InvalidInputError):
    """A worker is not registered, or not any more; it has to register again."""


class WorkerRefusedError(InvalidInputError):
    """The scheduler does not accept this worker; the message has the reason."""
