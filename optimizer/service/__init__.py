"""The optimizer as processes: the scheduler with its port for workers, local and remote workers, metrics.

The scheduler's side: service > duty (the scheduler while this process holds the lease), local_workers > port, metrics.
The workers' side: local_worker (the process) > worker > scheduler_client. Both speak `wire`.
"""
