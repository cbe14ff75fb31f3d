"""Rows by primary key, without a scan: `lookup` finds the files of a key (`keys`), `files` its rows in a file."""
