"""The bridge under the real MicroPython, on Node, and the same checks under CPython."""
