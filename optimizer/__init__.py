"""Tables that look after themselves: a service that finds which tables need what, and has workers do it.

From the top: cli (the commands) > service (processes, the network) > views (what people see of it) > work (what a
worker does) and watch (which tables have changed) > scheduling (who is next, and what became of it) > journal (what
outlives a process) > flow (values) > errors.
"""
