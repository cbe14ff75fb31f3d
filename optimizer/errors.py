"""Errors of the optimizer, each with the way out."""

from interbed.storage.base.errors import InterbedError, InvalidInputError


class JournalError(InterbedError):
    """The journal could not be read or written; what a scheduler knows beyond it does not count.

    Whether changes that were being stored are in it is then unknown. To store the same ones again is safe.
    """


class LeaseLostError(JournalError):
    """Another scheduler has taken over, or this one has let go; it has nothing to say any more."""


class SchedulerEndedError(JournalError):
    """What this scheduler had to store was refused, so that it knows more than the journal. It is to be made anew."""


class NotOnDutyError(InterbedError):
    """This process does not schedule: another does, or it has not begun yet."""


class NoSchedulerError(InterbedError):
    """No address answers, or none of those that do schedules. To be tried again."""


class UnknownWorkerError(InvalidInputError):
    """A worker is not known, or not any more; it has to register anew."""


class WorkerRefusedError(InvalidInputError):
    """The scheduler does not take this worker, and says why."""
