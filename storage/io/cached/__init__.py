"""Cache on local disk for files in object stores that never change.

Read `options` (what is cached, and what an object store must provide), `file_io`, and `blocks` (the files on disk).
"""
