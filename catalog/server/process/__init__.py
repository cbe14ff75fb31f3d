"""Starting a server: the command (command.py), one process (main.py), several (workers.py), one in tests (embedded.py).

opening.py makes the services of the settings, authenticating.py the authentication.
"""
