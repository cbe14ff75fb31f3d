"""The methods of the metastore's interface, by what they are about."""
