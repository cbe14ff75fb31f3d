"""A cache on local disk of files in stores that never change.

Read `options` (what is cached), `file_io`, `blocks` (the files on disk) and `versioned` (what a store must provide).
"""
