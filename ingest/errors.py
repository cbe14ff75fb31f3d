"""Errors of ingestion, with advice on what to do."""

from interbed.storage.base.errors import InterbedError, InvalidInputError


class BadMessageError(InvalidInputError):
    """A message cannot be decoded, or does not fit its table. None of it was written."""

    @classmethod
    def at(cls, place: str, reason: str) -> "BadMessageError":
        """Return the error of the message at a place, with advice on what to do."""
        return cls(
            f"{refusal_text(place, reason)} Nothing of it was written. Mend it at the source, or go on without such "
            "messages: skip them, or have them put into another topic."
        )


def refusal_text(place: str, reason: str) -> str:
    """Return a sentence that names the message and the reason why it is refused."""
    return f"The message at {place} can't be taken: {reason}."


class SourceUnavailableError(InterbedError, ConnectionError):
    """Messages cannot be read at this time. The read may be retried."""

    retryable = True


class SourceGapError(InterbedError):
    """Messages are missing at the source that were not read. The table will never get their changes."""


class SourceChangedError(InterbedError):
    """A source table has another key, or is another table than the one that a table of the lake was filled from."""


class SchemaRegistryError(InterbedError):
    """A schema registry refuses to return schemas, or the server is no registry. A retry does not help."""


class UnknownSchemaError(InvalidInputError):
    """A schema registry has no Avro schema with the requested id."""
