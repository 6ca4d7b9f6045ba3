"""The access-control gate in front of all handlers of a broker: one decision for the accounts of 4.9 and for the
users of 5.x, for requests over remoting (`gate`) and over gRPC (`authenticate`, `authorize`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import lru_cache, partial
from itertools import islice
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from rmqcli.broker.auth.following import AccountFiles
from rmqcli.broker.errors import NotReady, Refusal
from rmqcli.broker.net.handling import LONGEST_BODY, LONGEST_ODD_BODY
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.turns import LongWork, Steps
from rmqcli.broker.system import NowMs
from rmqcli.broker.tables import ClientChannel
from rmqcli.codec.acl.account_file import Permission
from rmqcli.codec.acl.addresses import read_address
from rmqcli.codec.acl.decision import (
    Attempt,
    Decision,
    Identified,
    Need,
    Rules,
    Subject,
    identify,
    on_group,
    on_topic,
    permit,
)
from rmqcli.codec.acl.policies import User
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.in_steps import decode_body_in_steps
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.errors import BodyError, CodecError, CorruptionError
from rmqcli.codec.headers.signed import ACCESS_KEY
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.names import MAX_GROUP_LENGTH, RETRY_PREFIX
from rmqcli.codec.operations.access import Action
from rmqcli.codec.operations.permissions import ANY_ACCOUNT, RULES, Rule
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.signature import PIECE, Mac, is_signed, is_signed_in_steps, received_ext_fields

EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""Prefix of Java's remark, by which clients recognize a refusal by access control of 4.9."""
LONG_NAMES: Final = 4 * 1024
"""Bytes of a body with names of resources beyond which it is checked in steps: a heartbeat may have
hundreds."""
NEEDS_PER_STEP: Final = 128
MOST_PERMITTED: Final = 4096
"""Maximum number of granted permissions that are cached, because a look-up takes a tenth of the time of a
decision. When the cache is full, it is cleared."""
TOLD_AGAIN_MS: Final = 60_000
"""Minimum time between two log lines about the same refusal."""
MOST_TOLD: Final = 1024
LONGEST_TOLD: Final = 400
"""Maximum length of the text of a refusal in the log."""
REPLIES: Final = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
"""The requests that every account may send to the reply topic of the cluster."""
PERMITTED: Final = Decision("", "permitted before, or without a check")
LONGEST_NAME: Final = len(RETRY_PREFIX) + MAX_GROUP_LENGTH

_address_of = lru_cache(maxsize=4096)(read_address)
_log = logging.getLogger("rmqcli.broker.auth")


class MessageTopics(NamedTuple):
    """The topics of a message: the one it is stored in, the one it will be delivered to, and the one it was
    sent to. They differ for delayed and half messages, and for messages that are delivered again.
    """

    stored: str
    real: str
    origin: str


TopicsAt = Callable[[int], MessageTopics | None]
"""Returns the topics of the message at an offset of the commit log; None if there is no record. Raises
NotReady, and CorruptionError for an offset at which no message was stored."""


def _knows_nothing(_offset: int) -> MessageTopics | None:
    return None


class NotAuthenticated(Refusal):
    """The caller of a request is unknown: the request is not signed, or its signature is wrong."""


class Whitelists(NamedTuple):
    """Requests that need no user (`authentication`), or no permission of a user (`authorization`), by code or by
    the full name of a gRPC message."""

    authentication: frozenset[int | str] = frozenset()
    authorization: frozenset[int | str] = frozenset()


NO_WHITELISTS: Final = Whitelists()


class KnownUsers(Protocol):
    """Users and policies of 5.x; the `listeners` are called after each change."""

    listeners: list[Callable[[], None]]

    @property
    def by_name(self) -> Mapping[str, User]: ...


class AccessControl:
    """The rules in effect. Every request passes the gate.

    Without `files`, there are no accounts of 4.9; without `users`, the users of 5.x have no access. Unless it
    `authorizes`, a user may do everything. A request on both whitelists, or on that of authentication while
    nothing is authorized, needs no user.

    `reply_topic` is that of the cluster. `topics_at` is set when the store is open. The `listeners` are
    called after each change of the rules.
    """

    def __init__(
        self,
        now_ms: NowMs,
        files: AccountFiles | None = None,
        users: KnownUsers | None = None,
        *,
        authorizes: bool = True,
        whitelists: Whitelists = NO_WHITELISTS,
        reply_topic: str = "",
    ) -> None:
        self.files = files
        self.authorizes = authorizes
        self.topics_at: TopicsAt = _knows_nothing
        self.listeners: list[Callable[[], None]] = []
        self._users = users
        self._open = whitelists.authentication
        if authorizes:
            self._open &= whitelists.authorization
        self._free = whitelists.authorization
        self._now_ms = now_ms
        self._rules = Rules()
        self._macs: dict[str, Mac] = {}
        self._permitted: set[tuple[str, object, tuple[Need, ...]]] = set()
        self._told: dict[str, int] = {}
        self._reply_topic = reply_topic
        if files is not None:
            files.on_change = self.refresh
        if users is not None:
            users.listeners.append(self.refresh)

    def refresh(self) -> None:
        """Make changed accounts and users effective."""
        rules = Rules() if self.files is None else self.files.current.rules
        self._rules = rules if self._users is None else replace(rules, users=self._users.by_name)
        self._permitted.clear()
        self._macs.clear()
        for listener in self.listeners:
            listener()

    def gate(self, session: Session, command: RemotingCommand) -> None:
        """Admit a request or raise Refusal. Raises NotReady if the check takes several turns or needs the
        disk."""
        try:
            self._check(session, command)
        except NotReady as missing:
            raise NotReady(missing.ready, then=missing.then or self._check) from None

    def admit(
        self,
        host: str,
        access_key: str | None,
        signed: Callable[[str], bool],
        needs: Iterable[Need],
        request: int | str,
    ) -> None:
        """Admit a request of another protocol to all of `needs`, or raise Refusal. Like `authenticate`, then
        `authorize`.
        """
        self.authorize(self.authenticate(host, access_key, signed, request), needs, request)

    def authenticate(
        self, host: str, access_key: str | None, signed: Callable[[str], bool] | None, request: int | str
    ) -> Identified | None:
        """Return the account or user that makes a request; None if it needs none.

        `host` is the address of the peer; `access_key` is None for an unsigned request, and `signed` checks
        its signature with the secret key that it gets. `request` is the full name of a gRPC message, or a
        request code. Raises NotAuthenticated.
        """
        if request in self._open:
            return None
        attempt = Attempt(_address_of(host), access_key)
        if signed is not None:
            attempt = attempt._replace(signed=lambda subject: signed(subject.secret_key))
        elif access_key is not None:
            attempt = attempt._replace(signed=lambda _subject: False)
        found = identify(self._rules, attempt)
        if isinstance(found, Identified):
            return found
        if found.refusal:
            refusal = self._refusal(host, request, found)
            raise NotAuthenticated(refusal.code, refusal.remark)
        return None

    def authorize(self, caller: Identified | None, needs: Iterable[Need], request: int | str) -> None:
        """Admit the caller returned by `authenticate` to all of `needs`, or raise Refusal."""
        if caller is not None:
            decision = self._decision(caller, None, tuple(needs), request)
            if not decision.allowed:
                raise self._refusal(str(caller.address), request, decision)

    def may_send(self, client: ClientChannel, topic: str) -> bool:
        """Return True if the account of a client may send to a topic under the current rules."""
        address = _address_of(client.channel.peer_text.rpartition(":")[0])
        found = identify(self._rules, Attempt(address, client.access_key))
        if isinstance(found, Identified):
            found = self._decision(found, None, _to(topic), RequestCode.SEND_MESSAGE_V2)
        return found.allowed

    def is_administrator(self, session: Session, command: RemotingCommand) -> bool:
        """Return True if an admitted request comes from an administrator, a super user, or a whitelisted
        address.
        """
        if command.code in self._open:
            return False
        attempt = Attempt(_address_of(session.peer[0]), received_ext_fields(command).get(ACCESS_KEY))
        found = identify(self._rules, attempt)
        return found.account.admin if isinstance(found, Identified) else found.allowed

    def _check(self, session: Session, command: RemotingCommand) -> None:
        if command.code in self._open:
            return
        ext = received_ext_fields(command)
        rule = RULES.get(command.code, ANY_ACCOUNT)
        attempt = Attempt(
            _address_of(session.peer[0]),
            ext.get(ACCESS_KEY),
            partial(self._needs, rule, command, ext),
            command.code if rule.is_for_admins else None,
            partial(self._is_signed, command, ext),
        )
        if len(command.body) > (LONG_NAMES if rule.in_body else PIECE):
            work = LongWork(self._checked(session, command, rule, attempt))
            raise NotReady(partial(work.run, session.turns), then=lambda _session, _command: work.finish())
        found = self._decide(session, command, attempt, rule)
        if rule.message is not None and found is not None:
            self._check_message(session, command, rule, found)

    def _decide(
        self, session: Session, command: RemotingCommand, attempt: Attempt, rule: Rule
    ) -> Identified | None:
        """Return the account whose permissions admit a request, None for a whitelisted address. Raises
        Refusal.
        """
        found = identify(self._rules, attempt)
        try:
            if not isinstance(found, Decision):
                self._permit(session, command, found, attempt, rule)
                return found
        except CodecError as error:
            raise _unreadable(error) from None
        if found.refusal:
            raise self._refusal(session.peer_text, command.code, found)
        return None

    def _permit(
        self,
        session: Session,
        command: RemotingCommand,
        found: Identified,
        attempt: Attempt,
        rule: Rule,
    ) -> None:
        """Raise Refusal unless the account may do this, or was permitted the same before."""
        account = found.account
        if account.admin and not rule.binds_admins:
            return
        # Accounts of 4.9 have no permissions for requests that require an administrator, so the body is not
        # read.
        needs = () if rule.is_for_admins and type(account) is not User else attempt.needs()
        # The same look-up as in `_decision`, inline, because a call costs as much as the look-up.
        if (account.access_key, attempt.admin_code, needs) in self._permitted:
            return
        decision = self._decision(found, attempt.admin_code, needs, command.code)
        if not decision.allowed:
            raise self._refusal(session.peer_text, command.code, decision)

    def _decision(
        self, found: Identified, admin_code: int | None, needs: tuple[Need, ...], request: int | str
    ) -> Decision:
        """Return the decision about the permissions of an account or user."""
        account = found.account
        depends_on: object = admin_code
        if type(account) is User:
            if not self.authorizes or request in self._free:
                return PERMITTED
            depends_on = found.address if account.bound else None
        wanted = account.access_key, depends_on, needs
        if wanted in self._permitted:
            return PERMITTED
        decision = permit(found, admin_code, needs)
        # Clients choose the names: only those of possible length are cached, which limits the memory.
        if decision.allowed and all(len(need.name) <= LONGEST_NAME for need in needs):
            if len(self._permitted) >= MOST_PERMITTED:
                self._permitted.clear()
            self._permitted.add(wanted)
        return decision

    def _check_message(
        self, session: Session, command: RemotingCommand, rule: Rule, found: Identified
    ) -> None:
        """Refuse a request about a message whose topic the account has no permission for. Raises NotReady."""
        if rule.message is None or rule.operation is None or found.account.admin:
            return
        try:
            place = getattr(rule.operation.decode_header(command), rule.message.named_by)
            offset = place if isinstance(place, int) else parse_offset_msg_id(place or "")[2]
        except CodecError:
            return  # the handler refuses it
        try:
            topics = self.topics_at(offset)
        except CorruptionError as error:
            raise _unreadable(error) from None
        if topics is None:
            return
        if Action.PUB in rule.message.actions:
            ways = [_to(topics.real)]
        else:
            ways = [(on_topic(name, Permission.SUB),) for name in (topics.origin, topics.real, topics.stored)]
        decisions = [self._decision(found, None, needs, command.code) for needs in ways]
        if not any(decision.allowed for decision in decisions):
            raise self._refusal(session.peer_text, command.code, decisions[0])

    def _checked(self, session: Session, command: RemotingCommand, rule: Rule, attempt: Attempt) -> Steps:
        """Check a request with a long body, in steps."""
        found: Identified | None = None
        known = self._rules.subject(attempt.access_key)
        if known is not None:
            by_user = isinstance(known, User)
            signed = yield from is_signed_in_steps(self._mac(known), command, by_user=by_user)
            attempt = attempt._replace(signed=lambda _subject: signed)
            if signed and rule.in_body and (by_user or not rule.is_for_admins):
                in_header = rule.needs(received_ext_fields(command))
                self._decide(session, command, attempt._replace(needs=lambda: in_header), rule)
                needs = rule.needs_of_body((yield from _decoded(rule, command)))
                while some := tuple(islice(needs, NEEDS_PER_STEP)):
                    self._decide(session, command, attempt._replace(needs=partial(tuple, some)), rule)
                    yield
                return _nothing
        found = self._decide(session, command, attempt, rule)
        if found is None or rule.message is None:
            return _nothing
        return partial(self._check_message, session, command, rule, found)

    def _needs(self, rule: Rule, command: RemotingCommand, ext: Mapping[str, str]) -> tuple[Need, ...]:
        """Return the permissions that a request with a short body needs. Raises CodecError."""
        needs = rule.needs(ext)
        if needs and needs[0].name == self._reply_topic and command.code in REPLIES:
            return ()
        if not rule.in_body or rule.operation is None:
            return needs
        return (*needs, *rule.needs_of_body(rule.operation.decode_request(command)[1]))

    def _is_signed(self, command: RemotingCommand, ext: Mapping[str, str], subject: Subject) -> bool:
        return is_signed(self._mac(subject), command, ext, by_user=type(subject) is User)

    def _mac(self, subject: Subject) -> Mac:
        mac = self._macs.get(subject.access_key)
        if mac is None:
            mac = self._macs[subject.access_key] = Mac(subject.secret_key)
        return mac

    def _refusal(self, peer: str, request: int | str, decision: Decision) -> Refusal:
        """Return a refusal, and log it; the same refusal is logged at most once a minute."""
        text = decision.refusal[:LONGEST_TOLD]
        now, told = self._now_ms(), self._told.get(text)
        if told is None or not 0 <= now - told < TOLD_AGAIN_MS:
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told[text] = now
            _log.info("%s: request %s: %s", peer, request, text)
        if decision.by_policy:
            return Refusal(ResponseCode.NO_PERMISSION, decision.refusal)
        return Refusal(ResponseCode.SYSTEM_ERROR, EXCEPTION + decision.refusal)


def _nothing() -> None:
    """Do nothing: the request is admitted."""


def _to(topic: str) -> tuple[Need, ...]:
    """Return the permissions that a send to a topic needs."""
    if topic.startswith(RETRY_PREFIX):
        return (on_group(topic.removeprefix(RETRY_PREFIX)),)
    return (on_topic(topic, Permission.PUB),)


def _unreadable(error: CodecError) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, f"{EXCEPTION}{error}")


def _decoded(rule: Rule, command: RemotingCommand) -> Generator[None, None, object]:
    """Decode the long body of a request, in steps. Raises Refusal if it is malformed, or too long for its
    handler."""
    body = bytes(command.body)
    try:
        if len(body) > LONGEST_BODY:
            raise BodyError(f"the body has {len(body)} bytes, {LONGEST_BODY} is the limit")
        form = None if rule.operation is None else rule.operation.json_request
        if form is None:
            raise BodyError("the body is not JSON")
        if len(body) <= LONGEST_ODD_BODY:
            return decode_body(form, body)
        return (yield from decode_body_in_steps(form, body))
    except CodecError as error:
        raise _unreadable(error) from None
