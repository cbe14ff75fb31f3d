"""Thrift: sockets and messages (edge), the handlers of calls (calls), conversion of Thrift structures (structs).

A request goes from edge/loop.py through edge/dispatch.py to a handler in calls, which converts with structs.
"""
