"""The `version` number of a frame: the ordinal of Java's enum `MQVersion.Version`.

From 4.0.0 on a release has the number 213 + 2·((major−4)·100 + minor·10 + patch), and its SNAPSHOT the
number before. Releases of 3.x follow each other in the same way, but their series differ in length.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

CURRENT_VERSION = 409
"""V4_9_8, what we advertise: name servers answer it with standard JSON (from 401 on)."""

_BEFORE_3_0_1 = (
    *("V3_0_0_SNAPSHOT", "V3_0_0_ALPHA1", "V3_0_0_BETA1", "V3_0_0_BETA2", "V3_0_0_BETA3", "V3_0_0_BETA4"),
    *("V3_0_0_BETA5", "V3_0_0_BETA6_SNAPSHOT", "V3_0_0_BETA6", "V3_0_0_BETA7_SNAPSHOT", "V3_0_0_BETA7"),
    *("V3_0_0_BETA8_SNAPSHOT", "V3_0_0_BETA8", "V3_0_0_BETA9_SNAPSHOT", "V3_0_0_BETA9", "V3_0_0_FINAL"),
)

# (major, minor) → first and last patch that the enum has
_SERIES = {
    (3, 0): (1, 15),
    (3, 1): (0, 9),
    (3, 2): (0, 9),
    **{(3, minor): (1, 9) for minor in range(3, 10)},
    **{(major, minor): (0, 9) for major in (4, 5) for minor in range(10)},
}


def _enumerate_names() -> Iterator[str]:
    yield from _BEFORE_3_0_1
    for (major, minor), (first, last) in _SERIES.items():
        for patch in range(first, last + 1):
            release = f"V{major}_{minor}_{patch}"
            yield f"{release}_SNAPSHOT"
            yield release
    yield "HIGHER_VERSION"


@cache
def _names() -> tuple[str, ...]:
    return tuple(_enumerate_names())


@cache
def _numbers() -> dict[str, int]:
    return {name: number for number, name in enumerate(_names())}


def version_name(number: int) -> str:
    """The name of a version number, as `MQVersion.getVersionDesc` prints it: 409 → ``V4_9_8``. It never
    fails."""
    names = _names()
    return names[number] if 0 <= number < len(names) else names[-1]


def version_number(text: str) -> int:
    """The number of ``4.9.8``, ``4.9.8-SNAPSHOT`` or ``V4_9_8``. Raises ValueError for a release that the
    enum does not have."""
    name = text.strip().upper().replace(".", "_").replace("-", "_")
    number = _numbers().get(name, _numbers().get(f"V{name}"))
    if number is None:
        raise ValueError(f"no RocketMQ release {text!r} is known")
    return number
