"""The state machine of processes and tasks, and the policies of groups.

From the top: engine (asks tables, reports to the scheduler) > scheduler (the state machine, which does no I/O but for
its journal) > process_board, queues > table_board > needs (pure) > settings.
"""
