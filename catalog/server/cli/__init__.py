"""Commands for operators of a metastore; `interbed server` itself is in process."""
