"""The users and policies of 5.x of one broker, in `config/users.json` of the store folder.

5.3.3 keeps them in RocksDB below `config/auth`; here they are one table like the others in that folder, with
mode 0600, because it contains passwords in plain text, as Java's does: signatures are checked with them. A
change is saved, and then takes effect, before the reply is sent. Slaves have separate users, as in Java.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import trio

from rmqcli.broker.auth.files import read_by_others
from rmqcli.broker.disk import Disk, load_table, save_table
from rmqcli.broker.net.turns import Turns
from rmqcli.broker.store.readiness import InThread
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.acl.policies import User, user_of
from rmqcli.codec.acl.users import MOST_BYTES, checked, size_of, subject_of, with_new_user
from rmqcli.codec.bodies.acl import UserInfo, UserTable
from rmqcli.codec.bodies.tables import decode_table
from rmqcli.codec.fastjson import FASTJSON, dumps_in_steps

OWNER_ONLY: Final = 0o600
FILE: Final = "users.json"

_log = logging.getLogger("rmqcli.broker.auth")

Change = Callable[[UserTable], UserTable]


class Users:
    """The users and policies in effect; `by_name` has them in the form that decisions need. The `listeners`
    are called after each change.
    """

    def __init__(self, root: Path, cluster: str, disk: Disk, in_thread: InThread, turns: Turns) -> None:
        self.path = root / "config" / FILE
        self.table = UserTable()
        self.by_name: Mapping[str, User] = {}
        self.listeners: list[Callable[[], None]] = []
        self._cluster = cluster
        self._disk = disk
        self._in_thread = in_thread
        self._turns = turns
        self._changing = trio.Lock()
        self._sizes: dict[str, int] = {}
        self._size = 0

    def load(self) -> None:
        """Load the file. Raises StoreDamaged if it cannot be used: a broker never runs with the wrong users.
        Blocks.
        """
        found = load_table(self._disk, self.path, _decoded)
        if found is None:
            return
        for path in read_by_others(self._disk, [self.path]):
            _log.warning("others may read %s, which has passwords: chmod 600", path)
        self.table = found
        self.by_name = {name: self._user(found, name) for name in found.users}
        self._sizes = {name: size_of(found, name) for name in found.users}
        self._size = sum(self._sizes.values())

    async def ensure(self, user: UserInfo) -> None:
        """Create a user unless there is one of that name. Raises AclError or OSError."""
        if user.username not in self.table.users:
            await self.change(user.username or "", lambda table: with_new_user(table, user))
            _log.info("created the user %s", user.username)

    async def change(self, name: str, change: Change) -> None:
        """Change a user, or its policies. Raises the errors of `change`, AclError or OSError."""
        async with self._changing:
            table = change(self.table)
            size = size_of(table, name)
            total = self._size - self._sizes.get(name, 0) + size
            if total > MOST_BYTES and size > self._sizes.get(name, 0):
                raise AclError(f"the users and policies would have {total} bytes, {MOST_BYTES} is the limit")
            # Passwords and policies are prepared before anything changes, so that a saved change can be
            # applied.
            users = (
                {**self.by_name, name: self._user(table, name)} if name in table.users else dict(self.by_name)
            )
            if name not in table.users:
                users.pop(name, None)
            text = await self._turns.run(dumps_in_steps(table, dialect=FASTJSON, pretty=True))
            with trio.CancelScope(shield=True):
                await self._in_thread(save_table, self._disk, self.path, text, OWNER_ONLY)
            self.table, self.by_name, self._size = table, users, total
            self._sizes[name] = size
            if name not in users:
                del self._sizes[name]
            for listener in self.listeners:
                listener()

    def _user(self, table: UserTable, name: str) -> User:
        return user_of(table.users[name], table.acls.get(subject_of(name)), self._cluster)


def _decoded(data: bytes) -> UserTable | None:
    found: UserTable | None = decode_table(UserTable, data)
    return None if found is None else checked(found)
