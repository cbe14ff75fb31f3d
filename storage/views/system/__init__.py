"""System tables: what is known of a table, as tables to read (documentation: concepts/system-tables)."""
