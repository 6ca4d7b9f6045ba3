"""The command line `rmq` and the client library (`rmqcli.client`)."""

__version__ = "0.1.0"

__all__ = ["__version__", "version_text"]


def version_text() -> str:
    """Return what `rmq --version` prints: the version, and whether the core of the codec is compiled."""
    from codec.core import is_compiled

    return f"rmq {__version__} ({'compiled' if is_compiled() else 'interpreted'})"
