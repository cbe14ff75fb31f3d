"""Reading files of stores ahead of need: neighbours by one request, several requests at once, in bounded memory."""
