"""Every key of Paimon's options, and how interbed treats it: honour, ignore or refuse it.

Read `check` first; `honoured`, `harmless` and `refused` are its lists. `meanings` has types, defaults and meanings of
the options that other parts of the code read.
"""
