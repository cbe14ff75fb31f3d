"""Schemas of tables: their files, their versions and their changes.

Read `table_schema` (a schema and its file) and `manager` (all versions of a table's schema) first. `change` has the
changes as values and `apply` applies them; `option_changes` checks those of options. `evolution` reads files
of older schemas; `manager` also shows the readable parts of a schema that this version can't read.
"""
