"""Authentication by Kerberos: SASL GSSAPI on Thrift's port, SPNEGO over HTTP.

Read auth_to_local.py and users.py (from principals to users), acceptor.py (the server's key and the contexts of
clients), then gssapi_mechanism.py (SASL) and spnego.py (HTTP). Whom a user may act for is in `../impersonation.py`.
"""
