"""Items under a partition key and a sort key; ``port.py`` says what every adapter promises."""
