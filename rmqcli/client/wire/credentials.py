"""The account of a client (Java `SessionCredentials`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from codec.remoting.signature import Signer
from rmqcli.client.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access key and secret key of an account, and a temporary security token. Only the access key is shown.

    Raises InvalidRequest for a key that is blank or that no header can carry.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given = {"access key": self.access_key, "secret key": self.secret_key}
        for what, text in (given | {"security token": self.security_token}).items():
            if text is None:
                continue
            if not text.strip():
                raise InvalidRequest(f"the {what} is empty")
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InvalidRequest(f"the {what} is no Unicode text") from None

    def signer(self) -> Signer:
        """Return the signer of requests with these keys."""
        return Signer(self.access_key, self.secret_key, self.security_token)
