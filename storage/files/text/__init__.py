"""Data files of format tables that are text: CSV, JSON and plain lines.

Read options.py for their syntax, lines.py for compression and lines, values.py for the text of a value, then csv.py and
json.py. codec.py has the files of plain lines, and the readers and writers of all files.
"""
