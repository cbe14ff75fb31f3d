"""Errors of ingestion, each with the way out."""

from interbed.storage.base.errors import InterbedError, InvalidInputError


class BadMessageError(InvalidInputError):
    """A message can't be decoded, or does not fit its table; nothing of it was written."""

    @classmethod
    def at(cls, place: str, reason: str) -> "BadMessageError":
        """The error of the message at a place, with the way out."""
        return cls(
            f"{whats_bad(place, reason)} Nothing of it was written. Mend it at the source, or go on without such "
            "messages: skip them, or have them put into another topic."
        )


def whats_bad(place: str, reason: str) -> str:
    """Which message can't be taken, and why."""
    return f"The message at {place} can't be taken: {reason}."


class SourceUnavailableError(InterbedError, ConnectionError):
    """Messages can't be read at this time; may be retried."""

    retryable = True


class SourceGapError(InterbedError):
    """Messages that were not read are gone from the source; the table will never have what they said."""


class SourceChangedError(InterbedError):
    """A source table has another key, or is another table than the one that a table of the lake was filled from."""


class SchemaRegistryError(InterbedError):
    """A schema registry refuses to tell schemas, or is none; trying again does not help."""


class UnknownSchemaError(InvalidInputError):
    """A schema registry says that it has no schema of Avro with such a number."""
