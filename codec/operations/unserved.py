"""Codes that RocketMQ names and no server of it processes."""

from __future__ import annotations

from typing import Final

from codec.codes import RequestCode as R
from codec.operations.operation import Operation

# fmt: off
QUERY_BROKER_OFFSET: Final = Operation(R.QUERY_BROKER_OFFSET)
GET_TOPIC_CONFIG_LIST: Final = Operation(R.GET_TOPIC_CONFIG_LIST)
GET_TOPIC_NAME_LIST: Final = Operation(R.GET_TOPIC_NAME_LIST)
TRIGGER_DELETE_FILES: Final = Operation(R.TRIGGER_DELETE_FILES)
GET_CLIENT_CONFIG: Final = Operation(R.GET_CLIENT_CONFIG)
SUSPEND_CONSUMER: Final = Operation(R.SUSPEND_CONSUMER)
RESUME_CONSUMER: Final = Operation(R.RESUME_CONSUMER)
RESET_CONSUMER_OFFSET_IN_CONSUMER: Final = Operation(R.RESET_CONSUMER_OFFSET_IN_CONSUMER)
RESET_CONSUMER_OFFSET_IN_BROKER: Final = Operation(R.RESET_CONSUMER_OFFSET_IN_BROKER)
ADJUST_CONSUMER_THREAD_POOL: Final = Operation(R.ADJUST_CONSUMER_THREAD_POOL)
WHO_CONSUME_THE_MESSAGE: Final = Operation(R.WHO_CONSUME_THE_MESSAGE)
