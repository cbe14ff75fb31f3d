"""System tables: the metadata of a table, as tables to read (documentation: concepts/system-tables)."""
