"""What lookups keep in memory, for all tables of the process: decoded row groups, and what they know of files.

`lookup.cache-max-memory-size` bounds the bytes; what was used longest ago goes first.
"""

from interbed.storage.base.memory_cache import MemoryCache

CACHE = MemoryCache()
"""The cache of the process."""
