"""Between Thrift's structures and the values of the metastore's rules.

convert.py has catalogs, databases, tables, functions and locks; then table_parts.py.
requests.py checks what is common to requests, projects answers to the fields that a client requests, and chooses the
exception that a call declares. event_messages.py writes the messages of the notification log.
"""
