"""Prefetch of remote files: neighbouring ranges by one request, several requests in parallel, in bounded memory.

Read `needs` (limits, and announced ranges), `content` (the bytes of a file), `inputs` (open files) and `pool`.
"""
