"""Storages of homes and landing folders: local folders and object stores behind one contract."""
