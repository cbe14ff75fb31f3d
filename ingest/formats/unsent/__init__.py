"""Values that a source did not send with an update: placeholders, and columns that are lacking."""
