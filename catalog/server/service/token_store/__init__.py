"""The token store of HiveServer2: keeping.py has the repository and the service."""
