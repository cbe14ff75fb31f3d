"""Access of clients to object stores: short-lived credentials, each for the directory of one table, or signatures.

The server's own keys never leave it. Read issued.py (the values), sts.py, google_tokens.py and azure_signatures.py
(issuers), then table_credentials.py, which decides for which directory. s3_requests.py signs requests for clients of
stores without a token service.
"""
