"""The command line `rmq` and the client library (`rmqcli.client`)."""

__version__ = "0.1.0"

__all__ = ["__version__", "core_form", "version_text"]


def core_form() -> str:
    """Return how the core of the codec runs: `compiled` or `interpreted`."""
    from rmqcli.codec.core import is_compiled

    return "compiled" if is_compiled() else "interpreted"


def version_text() -> str:
    """Return what `rmq --version` prints: the version, and how the core of the codec runs."""
    return f"rmq {__version__} ({core_form()})"
