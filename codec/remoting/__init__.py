"""Frames of the remoting protocol, the commands in them, and the connection that carries them."""
