"""Iceberg metadata that are made of a table in Paimon's format after each of its commits, by interbed or Java Paimon.

Their data files are that table's, and what is changed in the metadata is lost with its next commit.
"""

from pyiceberg.table.metadata import TableMetadata

IDENTITY = "paimon-commit-identity"
"""The entry of a summary that says of which commit its snapshot is; an id may be given again after a rollback."""


def is_published(metadata: TableMetadata) -> bool:
    """Whether the newest snapshot is of a table in Paimon's format. Java Paimon says so after version 1.4."""
    current = metadata.current_snapshot()
    return current is not None and current.summary is not None and current.summary[IDENTITY] is not None
