"""Data files become rows: columns by their ids, without what is deleted."""
