"""Small inputs with a definite right answer, one JSON file each, and the program that judges the product by them."""
