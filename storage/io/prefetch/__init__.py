"""Prefetch of remote files: neighbouring ranges by one request, several requests in parallel, in bounded memory.

Read `content` (the bytes of a file), `inputs` (open files) and `pool`. Limits and announced ranges are in `io.api`.
"""
