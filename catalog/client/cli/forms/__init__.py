"""Rows and columns in the forms that people and other programs write them.

file_rows.py reads files, with csv_rows.py, json_rows.py and the types that guessed_types.py finds; text_values.py makes
values of texts. row_formats.py writes rows, column_text.py columns. duckdb_tables.py gives DuckDB a catalog's tables.
"""
