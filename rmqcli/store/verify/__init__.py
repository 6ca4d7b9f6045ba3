"""Checks of a store folder: each file by itself, and the files against each other."""
