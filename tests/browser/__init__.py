"""Tests that look at the pages through Chromium."""
