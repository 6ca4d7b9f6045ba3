"""Steps between reading rows and writing them."""
