"""Decoders of messages, one for each format, behind `format.Decoder`."""
