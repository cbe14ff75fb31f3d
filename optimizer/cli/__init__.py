"""The commands `interbed optimizer …`."""
