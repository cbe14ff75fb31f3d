"""Sources of messages, one package for each kind, behind `source.MessageSource`."""
