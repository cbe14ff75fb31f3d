"""Every key of Paimon's options, and what interbed does with it."""
