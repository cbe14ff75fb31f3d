"""The optimizer as processes: the scheduler with its port for workers, local and remote workers, metrics."""
