"""The account with which a broker signs its own requests, to masters and name servers.

`innerClientAuthenticationCredentials` is a property of 5.x (`AuthConfig`), a JSON object:
{"accessKey": "…", "secretKey": "…"}. A broker of 4.9 does not sign its requests.
"""

from __future__ import annotations

import msgspec

from rmqcli.broker.config.broker import BrokerConfig
from rmqcli.broker.errors import ConfigError
from rmqcli.codec.remoting.signature import Signer

NAME = "innerClientAuthenticationCredentials"
_EXPECTED = f'{NAME}: {{"accessKey": "…", "secretKey": "…"}} is expected'


class Credentials(msgspec.Struct, frozen=True, rename="camel"):
    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r})"


def own_account(config: BrokerConfig) -> Credentials | None:
    """Return the account of the broker's own requests, if there is one. Raises ConfigError, which does not show
    the value.
    """
    text = (config.inner_client_authentication_credentials or "").strip()
    if not text:
        return None
    try:
        found = msgspec.json.decode(text, type=Credentials)
    except msgspec.DecodeError:
        raise ConfigError(_EXPECTED) from None
    if not found.access_key.strip() or not found.secret_key.strip():
        raise ConfigError(_EXPECTED)
    return Credentials(found.access_key.strip(), found.secret_key.strip(), found.security_token)


def own_signer(config: BrokerConfig) -> Signer | None:
    """Return the signer of the broker's requests; None without an account. Raises ConfigError."""
    found = own_account(config)
    return None if found is None else Signer(found.access_key, found.secret_key, found.security_token)
