"""The forms in which people and other programs write rows and columns.

file_rows.py reads files, with csv_rows.py and json_rows.py. row_formats.py writes rows, and has the rows and the
rejected lines of a file. text_values.py converts texts to values and guesses types. column_text.py parses and writes
columns. duckdb_sources.py gives DuckDB the tables of a catalog, and files; duckdb_objects.py has the functions and the
files in forms that lose nothing.
"""
