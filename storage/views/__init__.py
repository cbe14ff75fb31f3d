"""What can be looked at: system tables, LSM levels, streams of changes, point lookups, pypaimon's builders."""
