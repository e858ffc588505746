"""Ratios against the seed's own way and against peers, measured in one run on one machine."""
