"""Ways to hear and to speak on the mesh; ``port.py`` says what each promises."""
