"""Start of a server: command (command.py), one process (main.py), several (workers.py), one in tests (embedded.py)."""
