"""The export as a Spark job, and the session that it runs in."""
