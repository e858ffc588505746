"""The weather page for people and the JSON that it lives on; both read the journal and nothing else."""
