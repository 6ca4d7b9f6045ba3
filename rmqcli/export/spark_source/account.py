"""The account of the data source: `rocketmq.accessKey`, and the source of its secret key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rmqcli.export.spark_source.option_values import OptionError

if TYPE_CHECKING:
    from rmqcli.client.wire.credentials import Credentials


def credentials(given: Mapping[str, str | None]) -> Credentials | None:
    """Return the account of accessKey, secretKey or secretKeyFile, and securityToken.

    Returns None without any of them.

    Raises OptionError if they do not form an account.
    """
    from rmqcli.client.errors import InvalidRequest
    from rmqcli.client.wire.credentials import Keys, credentials_of, read_keys

    if not any(given.values()):
        return None
    path, secret = given["secretKeyFile"], given["secretKey"]
    if path and secret:
        raise OptionError("rocketmq.secretKey and rocketmq.secretKeyFile cannot be combined")
    try:
        keys = read_keys(path) if path else Keys(secret_key=secret)
        return credentials_of(given["accessKey"], keys, given["securityToken"])
    except OSError as error:
        raise OptionError(f"rocketmq.secretKeyFile={path}: {error.strerror or error}") from None
    except InvalidRequest as error:
        raise OptionError(f"rocketmq.accessKey: {error}") from None
