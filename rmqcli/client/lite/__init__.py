"""Polling with everything else done behind it (Java `DefaultLitePullConsumer`)."""

from __future__ import annotations

from rmqcli.client.lite.consumer import LitePullConsumer
from rmqcli.client.lite.settings import LiteSettings

__all__ = ["LitePullConsumer", "LiteSettings"]
