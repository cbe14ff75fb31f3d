"""Options of a table under Paimon's names, each parsed and checked by itself.

Read `core` first: `CoreOptions` joins the options of the other modules, one module for each subject. `reader` parses
values; the folder `known` lists every key of Paimon's options, and how interbed treats it.
"""
