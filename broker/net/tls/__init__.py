"""TLS on the ports of broker and name server, and on their connections to other nodes."""
