"""Starting a server: the command (command.py), one process (main.py), several (workers.py), one in tests (embedded.py).

board.py is the memory that the processes share, limits.py what the system lets a process have.
"""
