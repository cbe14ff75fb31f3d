"""Versions of a table: tags, branches, rollback, and what becomes of the files of versions that are given up."""
