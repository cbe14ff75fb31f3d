"""Starting a server: the command (command.py), one process (main.py), several (workers.py), one in tests (embedded.py).

limits.py is what the system lets a process have.
"""
