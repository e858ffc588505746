"""The repository tests itself: what its own rules say is checked here, so that nobody has to remember."""
