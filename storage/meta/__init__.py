"""What the metadata of one table say: options, schemas, snapshots, manifests, paths."""
