"""Schemas of tables: their files, their versions and what may change.

Read `table_schema` (a schema and its file) and `manager` (all versions of a table's schema) first. `change` has the
changes as values and `apply` carries them out; `option_changes` and `option_rules` check options. `evolution` reads
files of older schemas; `outline` shows what is known of a schema that this version can't read.
"""
