"""Message trace: records of sends and consumption, written to a topic in Java's format."""
