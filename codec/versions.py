"""The `version` number of a frame: the ordinal of Java's enum `MQVersion.Version`.

From 4.0.0 on, a release has the number 213 + 2·((major−4)·100 + minor·10 + patch), and its SNAPSHOT the
number before. Releases of 3.x follow one another in the same way, but their series differ in length.
"""

from __future__ import annotations

from functools import cache

CURRENT_VERSION = 409
"""V4_9_8, the version that we advertise; name servers reply to it with standard JSON (from 401 on)."""
V5_0_0 = 413

_BEFORE_3_0_1 = (
    *("V3_0_0_SNAPSHOT", "V3_0_0_ALPHA1", "V3_0_0_BETA1", "V3_0_0_BETA2", "V3_0_0_BETA3", "V3_0_0_BETA4"),
    *("V3_0_0_BETA5", "V3_0_0_BETA6_SNAPSHOT", "V3_0_0_BETA6", "V3_0_0_BETA7_SNAPSHOT", "V3_0_0_BETA7"),
    *("V3_0_0_BETA8_SNAPSHOT", "V3_0_0_BETA8", "V3_0_0_BETA9_SNAPSHOT", "V3_0_0_BETA9", "V3_0_0_FINAL"),
)

# (major, minor) → first and last patch in the enum
_SERIES = {
    (3, 0): (1, 15),
    (3, 1): (0, 9),
    (3, 2): (0, 9),
    **{(3, minor): (1, 9) for minor in range(3, 10)},
    **{(major, minor): (0, 9) for major in (4, 5) for minor in range(10)},
}


@cache
def _names() -> tuple[str, ...]:
    releases = [
        f"V{major}_{minor}_{patch}"
        for (major, minor), (first, last) in _SERIES.items()
        for patch in range(first, last + 1)
    ]
    both = (name for release in releases for name in (f"{release}_SNAPSHOT", release))
    return (*_BEFORE_3_0_1, *both, "HIGHER_VERSION")


def version_name(number: int) -> str:
    """Return the name of a version number, as `MQVersion.getVersionDesc` prints it: 409 → ``V4_9_8``. Any
    number has a name.
    """
    names = _names()
    return names[number] if 0 <= number < len(names) else names[-1]
