"""Errors of a migration of metadata."""

from interbed.storage.base.errors import InterbedError


class MigrationError(InterbedError):
    """The import, export or comparison cannot continue; the objects copied so far are complete in the target."""


class RefusedError(MigrationError):
    """A metastore answered a call about one object with an error; other objects may still be readable."""


class MissingMethodError(MigrationError):
    """A metastore does not know a method: it is of another version."""
