"""What goes wrong when metadata is moved."""

from interbed.storage.base.errors import InterbedError


class MigrationError(InterbedError):
    """The import, export or comparison cannot go on; what was copied so far is in the target and counts."""


class RefusedError(MigrationError):
    """A metastore answered a question about one object with an error; other objects may be read all the same."""


class MissingMethodError(MigrationError):
    """A metastore does not know a method: it is of another version."""
