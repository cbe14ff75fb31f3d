"""Iceberg's tables beside interbed's own: read with all of their deletes. Metadata are pyiceberg's.

From the top: opening (where tables come from) > table (the public object) > upkeep > query (one read of it, and its
plan explained) > optimize > commit > read (files become rows) > plan (which files, with which deletes) > meta (types,
filters and files as the metadata have them). publish makes Iceberg's metadata of interbed's own tables.

Needs the extra `interbed[iceberg]`: importing any module of this package raises MissingExtraError without it.
"""

from interbed.storage.base.errors import is_installed, missing_extra

if not is_installed("pyiceberg"):
    raise missing_extra("pyiceberg", needed_by="Reading Iceberg's tables")
