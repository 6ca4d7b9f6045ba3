"""Requests of brokers to this client, and its replies (Java `ClientRemotingProcessor`)."""
