"""Bytes to calls: connections, protocols, the request loop, cached answers."""
