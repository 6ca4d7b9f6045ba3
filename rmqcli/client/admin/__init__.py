"""Administration of a cluster: `Admin`, and one module for each of its areas."""

from rmqcli.client.admin.admin import Admin

__all__ = ["Admin"]
