"""Starting a server: the command, also for the length of a test (command.py), one process (main.py), several
(workers.py).

opening.py makes the services of the settings, authenticating.py the authentication.
"""
