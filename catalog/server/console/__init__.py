"""The console: pages for people at `/console` of the port for HTTP, rendered by the server.

Read cookies.py (what a browser keeps), login.py and forms.py, gate.py (how a request becomes that of a session, and
what every response has), rendering.py (how values become HTML), then the pages: catalog_pages.py, version_pages.py,
operation_pages.py. interface.py puts them together, and mounted.py is what a server loads.
"""
