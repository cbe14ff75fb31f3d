"""Reading files of stores ahead of need: neighbours by one request, several requests at once, in bounded memory.

Read `needs` (limits, and announced ranges), `content` (the bytes of a file), `file` (the input over them), `opening`
and `pool` (the threads); `held` has inputs that are opened for later.
"""
