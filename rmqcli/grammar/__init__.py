"""What people type as one word, and the value it means: ranges of offsets and times, durations, sizes."""

from __future__ import annotations

__all__: list[str] = []
