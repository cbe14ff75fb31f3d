"""The plan of a read: `task` decides which deletes apply to each data file, without I/O; `plan` reads the manifests."""
