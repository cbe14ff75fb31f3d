"""Statements of `interbed sql` that change rows: parse.py reads them, carry_out.py commits their changes.

row_changes.py computes new values and MERGE INTO, source_files.py opens the files that a statement reads.
"""
