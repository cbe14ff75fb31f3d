"""Thrift: sockets and messages (edge), the handlers of calls (calls), Thrift structures as values (structs).

A request goes from edge/loop.py through edge/dispatch.py to a handler in calls, which converts with structs.
"""
