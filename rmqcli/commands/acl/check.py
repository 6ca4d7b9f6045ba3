"""`rmq acl check`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.options import Seats
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.acl.app import ACCOUNTS, app
from rmqcli.commands.common.changing import read_brokers
from rmqcli.commands.common.outcome import end_partly, report_failures

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.commands.common.outcome import Failures
    from rmqcli.flows.permitting import Question

Answer = tuple[bool, str, str]
"""True if it is allowed; the text of a refusal; what decides."""

KeyArgument = Annotated[str, Argument(metavar="KEY", help="Access key of the account.")]
ActionArgument = Annotated[str, Argument(metavar="ACTION", help="pub, sub, or admin.")]
ResourceArgument = Annotated[
    str | None, Argument(metavar="[RESOURCE]", help="Topic:NAME or Group:NAME; none with admin.")
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
    key: KeyArgument,
    action: ActionArgument,
    settings: Settings,
    seats: Seats,
    resource: ResourceArgument = None,
    acl_file: FilesOption = None,
    address: AddressOption = None,
) -> None:
    """Say whether an account of 4.9 may do something, and which line of a file decides.

    With --acl-file no broker is asked, and signatures count as right. Without it brokers are, by
    requests that change nothing, signed by the account in use, which must be KEY; they do not say which
    line decides. The exit code is 6 if it may not, 3 if some brokers gave no answer.

    Piped output: broker, access key, action, resource, true or false, and what decides.
    """
    from rmqcli.flows.permitting import decided, question, read_account_files
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
        from rmqcli.flows.probing_access import probe

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
