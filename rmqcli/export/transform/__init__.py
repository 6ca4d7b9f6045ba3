"""Processing of rows between reading and writing them."""
