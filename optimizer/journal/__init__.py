"""What outlives a process of the optimizer: processes with their tasks, tables, decisions, and who schedules."""
