"""Pull consumers (Java `DefaultMQPullConsumer`)."""
