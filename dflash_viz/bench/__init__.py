"""Measuring: what `make bench` and `make record` run. Speed is measured here, never in a test."""
