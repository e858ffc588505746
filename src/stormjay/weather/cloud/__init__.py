"""The serving side of weather: ingest of observations, their store, and the read API (contract weather 6)."""
