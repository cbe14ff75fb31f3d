"""Authentication by Kerberos: SASL GSSAPI on Thrift's port, SPNEGO over HTTP.

Read auth_to_local.py (from principals to users), then acceptor.py (the server's key, the contexts of clients, SASL and
HTTP). Whom a user may act for is in `../impersonation.py`.
"""
