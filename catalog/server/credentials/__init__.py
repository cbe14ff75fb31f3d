"""Short-lived credentials of object stores, each for the directory of one table.

The server's own keys never leave it. Read issued.py (the values), session_policy.py (what a credential may do), sts.py
(its issuer), then table_credentials.py, which decides for which directory.
"""
