"""Functions that make one value of a column of several values of a key."""
