"""The choice of the bucket of each row: by a fixed hash, a dynamic hash index or the location of its key."""
