"""Where messages come from: one module for each kind, behind `source.Source`."""
