"""Values that pass through the optimizer: what a table needs, processes, tasks, groups. No I/O."""
