"""The state machine of processes and tasks, and the policies of groups.

From the top: engine (measures, plans and commits for the scheduler) > scheduler (the state machine, whose only I/O is
its journal) > process_board > table_queues > needs (pure, with the settings).
"""
