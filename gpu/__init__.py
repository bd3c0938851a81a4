"""Verification on a GPU host: see README.md."""
