"""Who is next, and what became of it: the state machine of processes and tasks, and the policies of groups.

From the top: engine (asks tables, tells the scheduler) > scheduler (the state machine, which does no I/O but for its
journal) > boards of tables and of processes > needs, turns, usage (pure).
"""
