"""The optimizer as processes: the scheduler with its port for workers, local and remote workers, metrics.

The scheduler's side: service (the scheduler while this process holds the lease), port, metrics. The workers' side:
local_workers (processes on this machine) > worker > scheduler_client, whose conversions to and from Thrift both sides
use.
"""
