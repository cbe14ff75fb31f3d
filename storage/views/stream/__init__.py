"""Reading the changes of a table as a stream: where it starts, what follows, and how far a reader has come."""
