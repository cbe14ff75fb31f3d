"""Who is next, and what became of it: the state machine of processes and tasks, and the policies of groups."""
