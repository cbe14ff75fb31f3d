"""Manifests and manifest lists: which data files a snapshot consists of."""
