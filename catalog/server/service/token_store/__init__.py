"""The token store of HiveServer2: stored.py has the repository, keeping.py the service."""
