"""Access of clients to object stores: short-lived credentials, each for the directory of one table, or signatures.

The server's own keys never leave it. Read issued.py (the values, and for which directory they are issued), then
issuers.py, one for each cloud. s3_requests.py signs requests for clients of stores without a token service.
"""
