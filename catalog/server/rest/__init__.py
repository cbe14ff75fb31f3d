"""REST: the interfaces of Iceberg's and Paimon's REST catalogs, on the HTTP port of the server.

Read interface.py (what a route, a request and an error are), endpoint.py (how a request is served, and how it waits for
another client), then an interface: iceberg/, paimon/ or own_interface.py. mounted.py lists the interfaces of a server.
"""
