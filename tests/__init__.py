"""Tests of the product, in folders by kind, so that a failure says where to look."""
