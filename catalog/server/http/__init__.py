"""The HTTP of a server: one kept ASGI server (uvicorn's protocol on asyncio), and the applications (Starlette) on it.

Start with application.py, which makes an application of routes and authenticates requests, and server.py, which serves
one on a thread of its own. connection.py limits what a client may cost. thrift.py is Thrift over HTTP; the pages of
health and metrics are in `ops/health.py`.
"""
