"""The weather station: hub broadcasts over a radio mesh into a journal, delivered over HTTP and served."""
