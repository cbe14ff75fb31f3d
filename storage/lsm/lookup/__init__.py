"""Finding rows of older levels by their keys: `sorted_keys` searches, `older_rows` keeps the searched files."""
