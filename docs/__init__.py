"""The documents, and the programs that write some of them from the code."""
