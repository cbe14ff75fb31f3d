"""Finding rows of older levels by their keys."""
