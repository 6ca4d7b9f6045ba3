"""The gate before all handlers of a broker, and its rules, which follow the files of accounts.

The files are read again every `WATCH_SECONDS`, and compared by content. A change that cannot be used is
logged and the rules stay as they were; a file that becomes empty, as while an editor writes it, keeps its
accounts.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Final

import trio

from broker.auth.files import NOTHING, Loaded, loaded, read_by_others, read_files
from broker.clock import NowMs
from broker.disk import Disk
from broker.errors import ConfigError, NotReady, Refusal
from broker.net.handling import LONGEST_BODY, LONGEST_ODD_BODY
from broker.net.session import Session
from broker.net.turns import LongWork, Steps
from broker.store.readiness import InThread
from codec.acl.account_file import Account
from codec.acl.addresses import read_address
from codec.acl.decision import Attempt, Decision, Need, identify, permit
from codec.acl.errors import AclError
from codec.acl.needs import ADMIN_CODES, needs_of, needs_of_heartbeat
from codec.bodies.base import decode_body
from codec.bodies.heartbeat import HeartbeatData
from codec.bodies.in_steps import decode_body_in_steps
from codec.codes import RequestCode, ResponseCode
from codec.errors import BodyError, CodecError
from codec.headers.signed import ACCESS_KEY
from codec.names import MAX_GROUP_LENGTH, RETRY_PREFIX
from codec.remoting.command import RemotingCommand
from codec.remoting.signature import PIECE, Mac, is_signed, is_signed_in_steps, received_ext_fields

WATCH_SECONDS: Final = 0.5
EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "
"""The beginning of Java's remark, by which clients know a refusal by access control."""
LONG_HEARTBEAT: Final = 4 * 1024
"""Bytes of a heartbeat above which it is checked in steps: it may have hundreds of topics."""
NEEDS_PER_STEP: Final = 128
MOST_PERMITTED: Final = 4096
"""Permissions that were granted and are kept, as a look-up takes a tenth of the time; then all are decided
again."""
LONGEST_NAME: Final = len(RETRY_PREFIX) + MAX_GROUP_LENGTH

_address_of = lru_cache(maxsize=4096)(read_address)
_log = logging.getLogger("broker.auth")


class AccessControl:
    """The rules in force. Every request passes `gate`; `watch` is a service."""

    def __init__(self, default: Path, disk: Disk, in_thread: InThread, now_ms: NowMs) -> None:
        self.default = default
        self.disk = disk
        self.in_thread = in_thread
        self.changing = trio.Lock()
        self._now_ms = now_ms
        self._loaded = NOTHING
        self._macs: dict[str, Mac] = {}
        self._permitted: set[tuple[str, int | None, tuple[Need, ...]]] = set()
        self._refused: dict[Path, bytes] | None = None

    @property
    def current(self) -> Loaded:
        return self._loaded

    async def load(self) -> None:
        """Reads the files at the start. ConfigError when one cannot be used."""
        try:
            contents = await self.in_thread(read_files, self.disk, self.default)
        except OSError as error:
            raise ConfigError(f"aclEnable=true: {error.filename}: {error.strerror}") from None
        if not contents:
            _log.warning("%s does not exist: no account may use this broker", self.default)
        for path in await self.in_thread(read_by_others, self.disk, contents):
            _log.warning("others may read %s, which has secret keys: chmod 600", path)
        self.use(loaded(contents, self._now_ms()))

    def use(self, found: Loaded) -> None:
        """Puts rules into force."""
        self._loaded = found
        self._permitted.clear()
        self._macs = {key: Mac(account.secret_key) for key, (account, _) in found.rules.accounts.items()}

    async def watch(self) -> None:
        """Follows changes of the files. OSError when they cannot be read."""
        while True:
            await trio.sleep(WATCH_SECONDS)
            async with self.changing:
                await self.follow()

    async def follow(self) -> None:
        """Reads the files once more. OSError."""
        try:
            contents = await self.in_thread(read_files, self.disk, self.default)
        except ConfigError as error:
            _log.error("%s; the accounts stay as they were", error)
            return
        before = self._loaded.contents
        for path, content in contents.items():
            if not content.strip() and before.get(path):
                contents[path] = before[path]
        if contents in (before, self._refused):
            return
        try:
            self.use(await self.in_thread(Loaded, contents, self._now_ms()))
        except AclError as error:
            self._refused = contents
            _log.error("%s; the accounts stay as they were", error)
            return
        self._refused = None
        _log.info("%d accounts in %d files", len(self._loaded.rules.accounts), len(contents))

    def gate(self, session: Session, command: RemotingCommand) -> None:
        """Admits a request or raises Refusal; NotReady for a long one, whose check takes turns."""
        ext = received_ext_fields(command)
        attempt = Attempt(
            _address_of(session.peer[0]),
            ext.get(ACCESS_KEY),
            partial(_needs, command, ext),
            command.code if command.code in ADMIN_CODES else None,
            partial(self._is_signed, command, ext),
        )
        if len(command.body) > (LONG_HEARTBEAT if command.code == RequestCode.HEART_BEAT else PIECE):
            work = LongWork(self._checked(session, command, attempt))
            raise NotReady(partial(work.run, session.turns), then=lambda _session, _command: work.finish())
        self._decide(session, command, attempt)

    def _decide(self, session: Session, command: RemotingCommand, attempt: Attempt) -> None:
        try:
            decision = self._decision(attempt)
        except CodecError as error:
            raise _unreadable(error) from None
        if decision is not None and decision.refusal:
            _log.debug("%s: code %d: %s", session.peer_text, command.code, decision.refusal)
            raise Refusal(ResponseCode.SYSTEM_ERROR, EXCEPTION + decision.refusal)

    def _decision(self, attempt: Attempt) -> Decision | None:
        """`decide`, or None where that account was permitted the same before."""
        found = identify(self._loaded.rules, attempt)
        if isinstance(found, Decision):
            return found
        needs = attempt.needs()
        wanted = found.account.access_key, attempt.admin_code, needs
        if wanted in self._permitted:
            return None
        decision = permit(found, attempt.admin_code, needs)
        if decision.allowed and all(len(need.name) <= LONGEST_NAME for need in needs):
            if len(self._permitted) >= MOST_PERMITTED:
                self._permitted.clear()
            self._permitted.add(wanted)
        return decision

    def _checked(self, session: Session, command: RemotingCommand, attempt: Attempt) -> Steps:
        """Decides about a request with a long body, in steps."""
        mac = self._macs.get(attempt.access_key or "")
        if mac is not None:
            signed = yield from is_signed_in_steps(mac, command)
            attempt = attempt._replace(signed=lambda _account: signed)
            if signed and command.code == RequestCode.HEART_BEAT:
                needs = needs_of_heartbeat((yield from _heartbeat(bytes(command.body))))
                while some := tuple(islice(needs, NEEDS_PER_STEP)):
                    self._decide(session, command, attempt._replace(needs=partial(tuple, some)))
                    yield
                return _nothing
        self._decide(session, command, attempt)
        return _nothing

    def _is_signed(self, command: RemotingCommand, ext: Mapping[str, str], account: Account) -> bool:
        return is_signed(self._macs[account.access_key], command, ext)


def _nothing() -> None:
    """All is decided."""


def _unreadable(error: CodecError) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, f"{EXCEPTION}{error}")


def _needs(command: RemotingCommand, ext: dict[str, str]) -> tuple[Need, ...]:
    if command.code != RequestCode.HEART_BEAT:
        return needs_of(command.code, ext)
    return tuple(needs_of_heartbeat(decode_body(HeartbeatData, bytes(command.body))))


def _heartbeat(body: bytes) -> Generator[None, None, HeartbeatData]:
    """The long body of a heartbeat, if its handler accepts so much. Refusal."""
    try:
        if len(body) <= LONGEST_ODD_BODY:
            return decode_body(HeartbeatData, body)
        if len(body) > LONGEST_BODY:
            raise BodyError(f"the body has {len(body)} bytes, {LONGEST_BODY} is the limit")
        return (yield from decode_body_in_steps(HeartbeatData, body))
    except CodecError as error:
        raise _unreadable(error) from None
