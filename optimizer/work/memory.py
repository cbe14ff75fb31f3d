"""What a task may take of a worker's memory, by the options of tables that bound memory.

A worker of `memory` bytes and `threads` has memory / threads for each task: half of it for rows that are sorted or
collected (`write-buffer-size`, beyond which they go to disk), a quarter for lookups (`lookup.cache-max-memory-size`).
The rest is for the blocks of files that are merged, which need some MB for each run. A table that asks for less keeps
what it asks for.
"""

from interbed.storage.meta.options.core import CoreOptions

_BUFFER = "write-buffer-size"
_LOOKUP = "lookup.cache-max-memory-size"
_LEAST = 1 << 20


def memory_options(share: int, options: CoreOptions) -> dict[str, str]:
    """The options for a compaction that may take so many bytes, of a table with these."""
    buffer = min(options.write_buffer_size, max(share // 2, _LEAST))
    lookup = min(options.lookup_cache_max_memory_size, max(share // 4, _LEAST))
    return {_BUFFER: f"{buffer} b", _LOOKUP: f"{lookup} b"}
