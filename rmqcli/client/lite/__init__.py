"""Polling with everything else done behind it (Java `DefaultLitePullConsumer`)."""
