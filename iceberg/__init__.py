"""Iceberg tables beside interbed's own, read with all of their deletes. pyiceberg provides the metadata.

From the top: table (the public object, its reads, their plans explained, and loading of tables) > upkeep > optimize >
commit > read (files become rows) > rest_scan (scans that a REST catalog plans) > plan (files to read, and their
deletes) > meta (types, filters and files in the metadata). publish writes Iceberg's metadata of interbed's own tables.

Needs the extra `interbed[iceberg]`: importing any module of this package raises MissingExtraError without it.
"""

from interbed.storage.base.errors import is_installed, missing_extra

if not is_installed("pyiceberg"):
    raise missing_extra("pyiceberg", needed_by="Reading Iceberg's tables")
