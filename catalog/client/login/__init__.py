"""Logins of clients to servers: SASL on Thrift's port, and Kerberos.

Read sasl_messages.py, then kerberos.py (tickets), gssapi_exchange.py (SASL GSSAPI), kerberos_transport.py (Thrift) and
negotiate.py (HTTP). The library of the extra `kerberos` is loaded when one of them is used.
"""
