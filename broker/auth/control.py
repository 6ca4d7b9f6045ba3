"""The access-control gate in front of all handlers of a broker, and its rules, which follow the files of
accounts.

The files are read again every `WATCH_SECONDS` and compared by content. Each changed file is parsed in a
separate thread, so that a slow one does not delay the others. A change that cannot be used is logged, and the
accounts of that file stay as they were; a file that becomes empty, for example while an editor writes it,
keeps its accounts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import trio

from rmqcli.broker.auth.files import NOTHING, Loaded, loaded, read_by_others, read_files
from rmqcli.broker.disk import Disk
from rmqcli.broker.errors import ConfigError, NotReady, Refusal
from rmqcli.broker.net.handling import LONGEST_BODY, LONGEST_ODD_BODY
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.turns import LongWork, Steps
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.system import NowMs
from rmqcli.broker.tables import ClientChannel
from rmqcli.codec.acl.account_file import Account, AccountFile, Permission, parse_file
from rmqcli.codec.acl.addresses import read_address
from rmqcli.codec.acl.decision import (
    Attempt,
    Decision,
    Identified,
    Need,
    identify,
    on_group,
    on_topic,
    permit,
)
from rmqcli.codec.acl.errors import AclError
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

WATCH_SECONDS: Final = 0.4
TOGETHER_SECONDS: Final = 0.2
"""Time within which changed files take effect together, unless parsing one of them takes longer."""
EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""Prefix of Java's remark, by which clients recognize a refusal by access control."""
LONG_NAMES: Final = 4 * 1024
"""Bytes of a body with names of resources beyond which it is checked in steps: a heartbeat may have
hundreds."""
NEEDS_PER_STEP: Final = 128
MOST_PERMITTED: Final = 4096
"""Maximum number of granted permissions that are cached, because a look-up takes a tenth of the time of a
decision. When the cache is full, it is cleared."""
REPLIES: Final = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
"""The requests that every account may send to the reply topic of the cluster."""
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


class AccessControl:
    """The rules in effect. Every request passes `gate`; `watch` is a service.

    `reply_topic` is that of the cluster. `topics_at`, and `on_change`, which is called after each change of
    the rules, are set when the store is open.
    """

    def __init__(
        self, default: Path, disk: Disk, in_thread: InThread, now_ms: NowMs, reply_topic: str = ""
    ) -> None:
        self.default = default
        self.disk = disk
        self.in_thread = in_thread
        self.changing = trio.Lock()
        self.applying = trio.Lock()
        self._now_ms = now_ms
        self._loaded = NOTHING
        self._macs: dict[str, Mac] = {}
        self._permitted: set[tuple[str, int | None, tuple[Need, ...]]] = set()
        self._order: list[Path] = []
        self._reading: dict[Path, bytes] = {}
        self._ready: dict[Path, tuple[bytes, AccountFile]] = {}
        self._refused: dict[Path, bytes] = {}
        self._reply_topic = reply_topic
        self.topics_at: TopicsAt = _knows_nothing
        self.on_change: Callable[[], None] = _nothing

    @property
    def current(self) -> Loaded:
        return self._loaded

    async def load(self) -> None:
        """Read the files at the start. Raises ConfigError if one cannot be used."""
        try:
            contents = await self.in_thread(read_files, self.disk, self.default)
        except OSError as error:
            raise ConfigError(f"aclEnable=true: {error.filename}: {error.strerror}") from None
        if not any(content.strip() for content in contents.values()):
            _log.warning("%s is missing or empty: no account may use this broker", self.default)
        for path in await self.in_thread(read_by_others, self.disk, contents):
            _log.warning("others may read %s, which has secret keys: chmod 600", path)
        self.use(loaded(contents, self._now_ms()))

    def use(self, found: Loaded) -> None:
        """Make rules effective."""
        self._loaded = found
        self._permitted.clear()
        self._macs.clear()
        self.on_change()

    async def watch(self) -> None:
        """Run the service that follows changes of the files. Raises OSError if they cannot be read."""
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(WATCH_SECONDS)
                await self._follow(nursery)

    async def _follow(self, nursery: trio.Nursery) -> None:
        """Read the files once; changed ones are parsed in the background. Raises OSError."""
        try:
            contents = await self.in_thread(read_files, self.disk, self.default)
        except ConfigError as error:
            _log.error("%s; the accounts stay as they were", error)
            return
        before = self._loaded.contents
        for path, content in contents.items():
            if not content.strip() and before.get(path):
                contents[path] = before[path]
        self._order = list(contents)
        for path in [path for path in self._reading if path not in contents]:
            del self._reading[path]
        found = False
        for path, content in contents.items():
            if content not in (before.get(path), self._refused.get(path), self._reading.get(path)):
                self._reading[path] = content
                nursery.start_soon(self._read, path, content, trio.current_time() + TOGETHER_SECONDS)
                found = True
        if found:
            await trio.sleep(TOGETHER_SECONDS)
        if self._ready or any(path not in contents for path in before):
            await self._apply()

    async def _read(self, path: Path, content: bytes, together_until: float) -> None:
        """Parse a changed file. A file that takes long becomes effective alone."""
        try:
            file = await self.in_thread(parse_file, str(path), content, self._now_ms())
        except AclError as error:
            if self._reading.get(path) is content:
                del self._reading[path]
                self._refused[path] = content
                _log.error("%s; its accounts stay as they were", error)
            return
        if self._reading.get(path) is not content:
            return  # changed again or removed in the meantime
        self._ready[path] = content, file
        if trio.current_time() >= together_until or len(self._ready) == len(self._reading):
            await self._apply()

    async def _apply(self) -> None:
        """Make the parsed files effective."""
        async with self.applying:
            ready, self._ready = self._ready, {}
            for path in ready:
                self._reading.pop(path, None)
                self._refused.pop(path, None)
            self.use(await self.in_thread(self._loaded.changed, self._order, ready))
        _log.info("%d accounts in %d files", len(self._loaded.rules.accounts), len(self._loaded.contents))

    async def put(self, path: Path, content: bytes, file: AccountFile) -> None:
        """Make one file effective, as changed by a request."""
        async with self.applying:
            self._reading.pop(path, None)
            self._ready.pop(path, None)
            self._refused.pop(path, None)
            order = sorted({*self._loaded.contents, path} - {self.default})
            order += [self.default] if self.default in self._loaded.contents or path == self.default else []
            self.use(await self.in_thread(self._loaded.changed, order, {path: (content, file)}))

    def gate(self, session: Session, command: RemotingCommand) -> None:
        """Admit a request or raise Refusal. Raises NotReady if the check takes several turns or needs the
        disk."""
        try:
            self._check(session, command)
        except NotReady as missing:
            raise NotReady(missing.ready, then=missing.then or self._check) from None

    def admit(
        self, host: str, access_key: str | None, signed: Callable[[Account], bool], needs: tuple[Need, ...]
    ) -> None:
        """Admit a request of another wire, whose signature `signed` checks, or raise Refusal."""
        attempt = Attempt(_address_of(host), access_key, lambda: needs, None, signed)
        found = identify(self._loaded.rules, attempt)
        decision = found if isinstance(found, Decision) else permit(found, None, needs)
        if not decision.allowed:
            raise Refusal(ResponseCode.SYSTEM_ERROR, EXCEPTION + decision.refusal)

    def may_send(self, client: ClientChannel, topic: str) -> bool:
        """Return True if the account of a client may send to a topic under the current rules."""
        address = _address_of(client.channel.peer_text.rpartition(":")[0])
        attempt = Attempt(address, client.access_key)
        found = identify(self._loaded.rules, attempt)
        return (permit(found, None, _to(topic)) if isinstance(found, Identified) else found).allowed

    def _check(self, session: Session, command: RemotingCommand) -> None:
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
        """Return the account whose permissions admit a request, None for a white address. Raises Refusal."""
        found = identify(self._loaded.rules, attempt)
        try:
            if not isinstance(found, Decision):
                self._permit(session, command, found, attempt.admin_code, attempt.needs(), rule)
                return found
        except CodecError as error:
            raise _unreadable(error) from None
        if found.refusal:
            raise self._refusal(session, command, found)
        return None

    def _permit(
        self,
        session: Session,
        command: RemotingCommand,
        found: Identified,
        admin_code: int | None,
        needs: tuple[Need, ...],
        rule: Rule,
    ) -> None:
        """Raise Refusal unless the account may do this, or was permitted the same before."""
        account = found.account
        if account.admin and not rule.binds_admins:
            return
        wanted = account.access_key, admin_code, needs
        if wanted in self._permitted:
            return
        decision = permit(found, admin_code, needs)
        if not decision.allowed:
            raise self._refusal(session, command, decision)
        # Clients choose the names: only those of possible length are cached, which limits the memory.
        if all(len(need.name) <= LONGEST_NAME for need in needs):
            if len(self._permitted) >= MOST_PERMITTED:
                self._permitted.clear()
            self._permitted.add(wanted)

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
        decisions = [permit(found, None, needs) for needs in ways]
        if not any(decision.allowed for decision in decisions):
            raise self._refusal(session, command, decisions[0])

    def _checked(self, session: Session, command: RemotingCommand, rule: Rule, attempt: Attempt) -> Steps:
        """Check a request with a long body, in steps."""
        found: Identified | None = None
        known = self._loaded.rules.accounts.get(attempt.access_key or "")
        if known is not None:
            signed = yield from is_signed_in_steps(self._mac(known[0]), command)
            attempt = attempt._replace(signed=lambda _account: signed)
            if signed and rule.in_body:
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

    def _is_signed(self, command: RemotingCommand, ext: Mapping[str, str], account: Account) -> bool:
        return is_signed(self._mac(account), command, ext)

    def _mac(self, account: Account) -> Mac:
        mac = self._macs.get(account.access_key)
        if mac is None:
            mac = self._macs[account.access_key] = Mac(account.secret_key)
        return mac

    def _refusal(self, session: Session, command: RemotingCommand, decision: Decision) -> Refusal:
        _log.debug("%s: code %d: %s", session.peer_text, command.code, decision.refusal)
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
