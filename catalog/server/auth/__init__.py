"""Authentication of the server's clients.

Read principals.py (values, the rules that make them, the protocol of a mechanism), impersonation.py (groups of users,
services that act for them), authentication.py (the mechanisms of a server together, the contract of a mechanism of
SASL, and PLAIN) with attempts.py (failures, and what waits because of them), then the mechanisms of tokens:
issued_tokens.py and json_web_tokens.py; ldap_directory.py has that of passwords, kerberos.py that of tickets, over SASL
and HTTP.
"""
