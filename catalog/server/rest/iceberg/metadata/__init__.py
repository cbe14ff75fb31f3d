"""Metadata of Iceberg tables as JSON documents: how updates and requirements apply to them.

Documents are plain dictionaries in the form of metadata files, so that fields of newer versions are kept by a commit.
Read `schemas`, `parts` (specs, orders, snapshots), then `updates` (and requirements) and `builder`, which applies them.
"""
