"""What messages say: one decoder for each format, behind `format.Decoder`."""
