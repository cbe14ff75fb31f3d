"""Thrift: sockets and messages (edge), the handlers of calls (calls), Thrift structures as values (structs)."""
