"""The catalogs of Paimon's REST interface: served.py has what its routes need of one beside the client's interface.

metastore.py has a catalog of the metastore of this process, and a directory of tables without a metastore.
"""
