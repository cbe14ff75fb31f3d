"""What workers do: tasks of compactions, and maintenance of a table as a whole."""
