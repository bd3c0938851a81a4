"""Training of small drafters on text that the target generates itself."""
