"""Logical types of Paimon and their codecs to JSON and Arrow."""
