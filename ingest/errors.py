"""Errors of ingestion, each with the way out."""

from interbed.storage.base.errors import InterbedError, InvalidInputError


class BadMessageError(InvalidInputError):
    """A message can't be decoded, or does not fit its table; nothing of it was written."""


class SourceUnavailableError(InterbedError, ConnectionError):
    """Messages can't be read at this time; may be retried."""

    retryable = True


class SourceGapError(InterbedError):
    """Messages that were not read are gone from the source; the table will never have what they said."""


class SchemaRegistryError(InterbedError):
    """A schema registry refuses to tell schemas, or is none; trying again does not help."""


class UnknownSchemaError(InvalidInputError):
    """A schema registry says that it has no schema of Avro with such a number."""
