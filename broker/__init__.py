"""A name server and broker on trio."""
