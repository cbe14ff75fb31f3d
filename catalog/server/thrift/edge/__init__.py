"""From bytes to calls: connections, protocols, the event loop, cached answers.

Start with loop.py, which waits for sockets, and serving.py, which serves the messages of a connection. transport.py
frames messages, codec.py finds their ends and decodes calls, dispatch.py runs them. sockets.py, buffers.py
and pool.py are parts of the loop, cache.py keeps answers.
"""
