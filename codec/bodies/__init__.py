"""JSON bodies of requests and replies as typed values; class names are Java's, one module an area."""
