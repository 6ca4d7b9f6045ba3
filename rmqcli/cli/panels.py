"""The rarer options of commands by the topic of their panel; help shows the others first, together.

An option that is not listed is a common one.
"""

from __future__ import annotations

from collections.abc import Mapping

_SETTINGS = {
    "Reading from replicas": "--read-from --slow-read-from",
    "Consumption": "--consume --broadcast --from-min --notify",
    "Proxies of 5.x": "--orderly --retry-policy",
}

_BODIES = "--raw --full --meta-only --max-body"
PANELS: Mapping[str, Mapping[str, str]] = {
    "send": {
        "Input": "--file --delimiter --whole --jsonl",
        "Delivery": "--delay-level --oneway --batch --concurrency --rate",
        "Transactions": "--transaction --check --wait",
        "Tracing": "--trace",
    },
    "request": {"Bodies": "--raw"},
    "pull": {"Content": "--grep --fail-empty", "Bodies": _BODIES},
    "tail": {
        "Queues": "--queue --broker",
        "Content": "--grep",
        "End": "--until --idle --fail-empty",
        "Bodies": _BODIES,
    },
    "query": {"Content": "--grep --fail-empty", "Bodies": _BODIES},
    "consume": {
        "Bodies": _BODIES,
        "Membership": "--orderly --broadcast --balance",
        "Commands and retries": "--reply --jobs --retries",
        "Tracing": "--trace",
    },
    "offsets reset": {"Running clients": "--wait"},
    "offsets clone": {"Running clients": "--wait"},
    "topic create": {"Queues and order": "--read-queues --write-queues --order", "Attributes": "--attribute"},
    "topic update": {
        "Queues": "--read-queues --write-queues",
        "Attributes": "--attribute --remove-attribute",
    },
    "group create": _SETTINGS,
    "group update": _SETTINGS,
    "inspect commitlog": {"Checks": "--verify --jobs"},
    "inspect consumequeue": {"Checks": "--commit-log --verify --jobs"},
    "inspect index": {"Slots": "--slots"},
    "inspect delay": {"Settings": "--delay-levels"},
    "inspect rebuild": {"Settings": "--delay-levels --config --set"},
    "mirror": {
        "Replication port": "--ha --ha-tls",
        "Parquet files": "--parquet --parquet-every",
        "Verification": "--verify --jobs",
    },
    "report": {
        "Cluster": "--broker --cluster",
        "Store folder": "--verify --jobs",
    },
    "sql": {"Store folder": "--broker-name --verify --walk"},
    "export": {
        "Selection": "--queue --tag --verify",
        "Content": "--decode --schema --on-error --sample --mask --mask-key-file",
        "Tables": "--table --follow --every",
        "Spark": "--spark --master --conf",
        "Layout": "--partition-by --columns --body-text --compression --file-size --row-group-size",
        "Work": "--jobs --resume",
    },
}


def panel_of(path: str, name: str) -> str:
    """Return the title of the panel of an option, "" if it is a common one."""
    return next((title for title, names in PANELS.get(path, {}).items() if name in names.split()), "")
