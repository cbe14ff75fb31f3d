"""Manifests and manifest lists: the data files of a snapshot.

Read `entry` (a file in a manifest) first; `manifest_file` and `index_manifest` write and read the files, in three
formats; `entry_decoder` decodes them fast.
"""
