"""Options of a table under Paimon's names, each parsed and checked by itself."""
