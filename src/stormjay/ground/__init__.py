"""What two pipelines need, each part under its own name."""
