"""The command line `rmq` and the client library (`rmqcli.client`)."""

__version__ = "0.1.0"

__all__ = ["__version__"]
