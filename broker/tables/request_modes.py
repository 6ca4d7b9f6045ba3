"""The modes in which groups consume topics (Java class `MessageRequestModeManager`): PULL, or POP if a
client leaves the allocation of queues to its brokers.
"""

from __future__ import annotations

from rmqcli.codec.bodies.pop import MessageRequestModeSerializeWrapper, SetMessageRequestModeRequestBody

PULL, POP = "PULL", "POP"


def mode_problem(mode: SetMessageRequestModeRequestBody) -> str | None:
    """Return the problem with a mode; None if there is none."""
    return None if mode.mode in (PULL, POP) else f"mode {mode.mode!r} is not known, only {PULL} and {POP}"


class RequestModes:
    """Topic and group → mode."""

    def __init__(self) -> None:
        self._modes: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}
        self.dirty = False

    def get(self, topic: str, group: str) -> SetMessageRequestModeRequestBody | None:
        return self._modes.get(topic, {}).get(group)

    def set(self, mode: SetMessageRequestModeRequestBody) -> None:
        if self.get(mode.topic, mode.consumer_group) != mode:
            self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
            self.dirty = True

    def remove_topic(self, topic: str) -> None:
        if self._modes.pop(topic, None) is not None:
            self.dirty = True

    def remove_group(self, group: str) -> None:
        for topic in [topic for topic, modes in self._modes.items() if group in modes]:
            del self._modes[topic][group]
            if not self._modes[topic]:
                del self._modes[topic]
            self.dirty = True

    def wrapper(self) -> MessageRequestModeSerializeWrapper:
        modes = {topic: dict(groups) for topic, groups in self._modes.items()}
        return MessageRequestModeSerializeWrapper(message_request_mode_map=modes)

    def load(self, wrapper: MessageRequestModeSerializeWrapper) -> None:
        """Add a saved table; entries without a known mode are left out."""
        for groups in wrapper.message_request_mode_map.values():
            for mode in groups.values():
                if mode_problem(mode) is None:
                    self.set(mode)
        self.dirty = False
