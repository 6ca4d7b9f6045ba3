"""The network side of a node: listeners, sessions, transports, connections to peers."""
