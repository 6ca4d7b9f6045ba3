"""`rmq acl version`, `set`, `delete` and `whitelist`: access control of 4.9."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.options import Seats
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.acl.app import ACCOUNTS, app
from rmqcli.commands.common.changing import Change, change_brokers, read_brokers
from rmqcli.commands.common.outcome import end_partly
from rmqcli.commands.common.secrets import read_secret

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange

KeyArgument = Annotated[str, Argument(metavar="KEY", help="Access key of the account.")]
SecretOption = Annotated[
    Path | None,
    Option("--secret-file", metavar="FILE", help="File whose first line is the secret key; - is stdin."),
]
AdminOption = Annotated[bool, Option("--admin", help="Make it an administrator; without, it is none.")]
PERM = "DENY, PUB, SUB or 'PUB|SUB'"
DefaultTopicOption = Annotated[
    str | None, Option("--topic-default", metavar="PERM", help=f"Permission on other topics: {PERM}.")
]
DefaultGroupOption = Annotated[
    str | None, Option("--group-default", metavar="PERM", help=f"Permission on other groups: {PERM}.")
]
TopicPermOption = Annotated[
    list[str] | None,
    Option("--topic-perm", metavar="TOPIC=PERM", help="Permission on a topic; repeatable."),
]
GroupPermOption = Annotated[
    list[str] | None,
    Option("--group-perm", metavar="GROUP=PERM", help="Permission on a group; repeatable."),
]
FromAddressOption = Annotated[
    str | None,
    Option("--white-address", metavar="ADDRESS", help="Addresses that need no signature, e.g. '10.0.*.*'."),
]
AddressesArgument = Annotated[
    list[str],
    Argument(metavar="ADDRESS", help="Addresses that need no account, or ranges such as '10.0.*.*'."),
]
PathOption = Annotated[
    str | None,
    Option("--acl-file", metavar="PATH", help="File on the brokers' machines; default: plain_acl.yml."),
]


@command(
    app,
    "version",
    example="rmq acl version\nrmq acl version -b broker-a --json",
    rows=Rows.LIST,
)
def version(settings: Settings, seats: Seats) -> None:
    """Show the versions of the account files of brokers of 4.9.

    Piped output: broker (NAME:ID for a slave), file, number of changes, time of the last one (epoch ms).
    Brokers without access control (aclEnable=false) and those that do not respond are reported, and the exit
    code is 3.
    """
    from rmqcli.flows.accounts import read_versions
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import BROKER
    from rmqcli.render.text import age, local_time

    found, failures = read_brokers(settings, seats, ACCOUNTS, read_versions)
    columns = [
        BROKER,
        Column("FILE", "file", whole=True),
        Column("CHANGES", "counter", number=True),
        Column("CHANGED", "timestamp", local_time, brief=age),
    ]
    show_rows(settings, columns, found.files, empty="" if found.off else "no file of accounts")
    end_partly(failures, found.off, done=bool(found.files))


@command(
    app,
    "set",
    example="""rmq acl set billing --secret-file secret.txt --topic-perm 'orders=PUB|SUB'
rmq acl set operator --secret-file - --admin -b broker-a --yes""",
    rows=Rows.DOCUMENT,
)
def set_account(
    key: KeyArgument,
    settings: Settings,
    how: Change,
    secret_file: SecretOption = None,
    admin: AdminOption = False,
    topic_default: DefaultTopicOption = None,
    group_default: DefaultGroupOption = None,
    topic_perm: TopicPermOption = None,
    group_perm: GroupPermOption = None,
    white_address: FromAddressOption = None,
) -> None:
    """Create an account of 4.9, or change one: what is not given stays, except --admin.

    The secret key is asked for on a terminal, and always required, as brokers refuse an account without it.
    Java's brokers read their files again after up to 5 seconds; until then permissions that are not given are
    DENY.
    Brokers that refuse or do not respond are reported, and the exit code is 3.
    """
    from rmqcli.flows.accounts import account_of, explained

    secret = read_secret(secret_file, "secret key", "--secret-file")
    given: Mapping[str, Any] = {
        "admin": admin,
        "default_topic_perm": topic_default,
        "default_group_perm": group_default,
        "white_remote_address": white_address,
    }
    account = account_of(key, secret, given, topic_perm or (), group_perm or ())
    change_brokers(
        settings,
        how,
        ACCOUNTS,
        (f"set the account {key}", f"set the account {key}"),
        lambda client, found: client.access.put_account(found, account),
        explain=explained,
    )


@command(
    app,
    "delete",
    example="rmq acl delete billing --yes",
    rows=Rows.DOCUMENT,
)
def delete(
    key: KeyArgument,
    settings: Settings,
    how: Change,
) -> None:
    """Delete an account of 4.9.

    Asks for confirmation; without a terminal, --yes is required. Brokers that do not have the account, refuse
    or do not respond are reported, and the exit code is 3.
    """
    from rmqcli.flows.accounts import explained

    async def apply(client: Admin, found: Mapping[str, str]) -> TopicChange:
        return await client.access.delete_account(found, key)

    words = (f"delete the account {key}", f"deleted the account {key}")
    lost = [f"the account {key}"]
    change_brokers(settings, how, ACCOUNTS, words, apply, lost=lost, explain=explained)


@command(
    app,
    "whitelist",
    example="rmq acl whitelist 10.0.0.1 '192.168.*.*' --dry-run",
    rows=Rows.DOCUMENT,
)
def whitelist(
    addresses: AddressesArgument,
    settings: Settings,
    how: Change,
    acl_file: PathOption = None,
) -> None:
    """Replace the addresses that may do everything on brokers of 4.9 without an account.

    Brokers read their files again after up to 5 seconds. Asks for confirmation; without a terminal, --yes is
    required. Brokers that refuse or do not respond are reported, and the exit code is 3.
    """
    from rmqcli.flows.accounts import checked_addresses, explained

    wanted = checked_addresses(addresses)
    words = ("replace the addresses without account", "replaced the addresses without account")
    change_brokers(
        settings,
        how,
        ACCOUNTS,
        words,
        lambda client, found: client.access.set_white_list(found, wanted, acl_file or ""),
        lost=["the addresses of before"],
        explain=explained,
    )
