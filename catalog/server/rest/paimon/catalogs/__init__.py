"""The catalogs of Paimon's REST interface: served.py has what its routes need of one beside the client's interface.

metastore.py is a catalog of the metastore of this process, warehouse.py a directory of tables without a metastore.
"""
