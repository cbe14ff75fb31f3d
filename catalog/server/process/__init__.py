"""Starting a server: the command, worker processes, a server for the length of a `with` block."""
