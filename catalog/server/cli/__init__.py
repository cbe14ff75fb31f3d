"""Commands for the people who operate a metastore; `interbed server` itself is in process."""
