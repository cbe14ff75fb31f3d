"""Manifests and manifest lists: which data files a snapshot consists of.

Read `entry` (what a manifest says of a file) first; `manifest_file` and `index_manifest` write and read
the files, in the three formats of `layout`; `entry_decoder` is the quick way to decode them.
"""
