"""`rmq acl`: accounts of 4.9."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.options import Seats
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.acl.app import ACCOUNTS, app
from rmqcli.commands.acl.secrets import read_secret
from rmqcli.commands.common.applying import Change, change_brokers, read_brokers
from rmqcli.commands.common.outcome import end_partly, report_failures

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange
    from rmqcli.commands.common.outcome import Failures
    from rmqcli.plans.access import Question

PathsArgument = Annotated[
    list[Path], Argument(metavar="PATH", help="Files of accounts, or the folder conf of a broker.")
]


@command(
    app,
    "list",
    example="rmq acl list $ROCKETMQ_HOME/conf\nrmq acl list plain_acl.yml --json",
    rows=Rows.LIST,
)
def list_accounts(paths: PathsArgument, settings: Settings) -> None:
    """List the accounts in files of 4.9, without their secret keys. Brokers do not disclose their accounts.

    Piped output: access key, true for an administrator, permissions on topics, on groups, on other topics, on
    other groups, white address, file. If several accounts have the same key, only the effective one is
    listed.
    """
    from rmqcli.plans.access import account_rows, read_account_files
    from rmqcli.render import Column, show_rows

    columns = [
        Column("ACCESS KEY", "accessKey"),
        Column("ADMIN", "admin", lambda yes: "yes" if yes else ""),
        Column("TOPICS", "topicPerms"),
        Column("GROUPS", "groupPerms"),
        Column("OTHER TOPICS", "defaultTopicPerm"),
        Column("OTHER GROUPS", "defaultGroupPerm"),
        Column("WHITE ADDRESS", "whiteRemoteAddress"),
        Column("FILE", "file", whole=True),
    ]
    show_rows(settings, columns, account_rows(read_account_files(paths)), empty="no accounts")


Answer = tuple[bool, str, str]
"""True if the action is allowed; the text of a refusal; the source of the decision."""

SenderArgument = Annotated[str, Argument(metavar="KEY", help="Access key of the account.")]
ActionArgument = Annotated[str, Argument(metavar="ACTION", help="pub, sub, or admin.")]
ResourceArgument = Annotated[
    str | None, Argument(metavar="[RESOURCE]", help="Topic:NAME or Group:NAME; omitted with admin.")
]
FilesOption = Annotated[
    list[Path] | None,
    Option(
        "--acl-file", metavar="PATH", help="File of accounts, or the folder conf of a broker; repeatable."
    ),
]
AddressOption = Annotated[
    str | None, Option("--address", metavar="IP", help="Address of the client, for white addresses.")
]


@command(
    app,
    "check",
    example="""rmq acl check billing-app pub Topic:orders --acl-file conf --address 10.0.0.7
rmq --profile shop acl check billing-app sub Group:billing""",
    rows=Rows.LIST,
)
def check(
    key: SenderArgument,
    action: ActionArgument,
    settings: Settings,
    seats: Seats,
    resource: ResourceArgument = None,
    acl_file: FilesOption = None,
    address: AddressOption = None,
) -> None:
    """Check whether an account of 4.9 may do something, and show which line of a file decides.

    With --acl-file, no broker is queried, and signatures are assumed to be valid. Without it, brokers receive
    requests that change nothing, signed by the account in use, which must be KEY; they do not report which
    line decides. The exit code is 6 if the action is denied, 3 if some brokers did not respond.

    Piped output: broker, access key, action, resource, true or false, and what decides.
    """
    from rmqcli.plans.access import decided, question, read_account_files
    from rmqcli.render import Column, show_rows

    asked = question(action, resource)
    found: dict[str, Answer]
    failures: Failures = {}
    if acl_file:
        allowed, refusal, line = decided(read_account_files(acl_file), key, asked, address)
        found = {"": (allowed, refusal, line)}
    else:
        found, failures = _asked(settings, seats, key, asked, address)
    columns = [
        Column("BROKER", "brokerName"),
        Column("ACCESS KEY", "accessKey"),
        Column("ACTION", "action"),
        Column("RESOURCE", "resource"),
        Column("ALLOWED", "allowed", lambda yes: "yes" if yes else "no"),
        Column("DECIDED BY", "line", whole=True),
    ]
    rows = [[broker or None, key, action, resource, yes, line] for broker, (yes, _, line) in found.items()]
    show_rows(settings, columns, rows)
    refusals = [text for yes, text, _ in found.values() if not yes]
    if refusals:
        report_failures(failures)
        raise Ended(ExitCode.NOT_PERMITTED, list(dict.fromkeys(refusals)))
    end_partly(failures, done=bool(found))


def _asked(
    settings: Settings, seats: Seats, key: str, asked: Question, address: str | None
) -> tuple[dict[str, Answer], Failures]:
    from rmqcli.cli.account import account

    used = account(settings.given, settings.endpoint)
    if used is None or used.access_key != key:
        raise usage_error(
            f"brokers are asked with the account {key}: name it with --access-key, or use --acl-file"
        )
    if address is not None:
        raise usage_error("--address is for --acl-file: brokers see the address of this machine")
    need = asked.need
    if need is None:
        raise usage_error("admin is for --acl-file: such a request would change the broker")

    async def read(admin: Admin, found: Mapping[str, str], failures: Failures) -> dict[str, Answer]:
        from rmqcli.client import ClientError
        from rmqcli.plans.access import probe

        answers = {}
        for label, at in found.items():
            try:
                text = await probe(admin, at, need)
            except ClientError as error:
                failures[label] = error
            else:
                answers[label] = not text, text, "the broker"
        return answers

    return read_brokers(settings, seats, ACCOUNTS, read)


KeyArgument = Annotated[str, Argument(metavar="KEY", help="Access key of the account.")]
SecretOption = Annotated[
    Path | None,
    Option("--secret-file", metavar="FILE", help="File whose first line is the secret key; - is stdin."),
]
AdminOption = Annotated[
    bool, Option("--admin", help="Make it an administrator; without the option, it is not.")
]
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
    from rmqcli.plans.accounts import read_versions
    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import BROKER
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
    """Create or change an account of 4.9; settings that are not given are kept, except --admin.

    The secret key is always required, because brokers refuse an account without one; on a terminal, the
    command prompts for it. Java's brokers read their files again after up to 5 seconds; until then,
    permissions that are not given are DENY. Brokers that refuse or do not respond are reported, and the exit
    code is 3.
    """
    from rmqcli.plans.accounts import account_of, explained

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
    from rmqcli.plans.accounts import explained

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
    from rmqcli.plans.accounts import checked_addresses, explained

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
