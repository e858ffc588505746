"""Durable items on their way to a far side; ``port.py`` says what every adapter promises."""
