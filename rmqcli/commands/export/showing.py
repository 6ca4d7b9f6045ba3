"""The report of a run of `rmq export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.cli.settings import Settings
from rmqcli.render.output import note, warn

if TYPE_CHECKING:
    from rmqcli.export import ExportSummary, QueueEnd


def show(settings: Settings, summary: ExportSummary) -> None:
    """Print what a run added, and warn of what it could not export."""
    from rmqcli.render import Output
    from rmqcli.render.text import duration, many, size, tsv_line

    out, files, rows, written, seconds, failed, damaged, lost, undecoded, quarantined = summary
    if settings.json:
        facts = {
            "out": out,
            "files": files,
            "rows": rows,
            "bytes": written,
            "seconds": round(seconds, 3),
            "failed": [_failure(end) for end in failed],
            "damaged": [{"store": str(one.store), "reason": str(one.error)} for one in damaged],
            "lost": list(lost),
            "undecoded": undecoded,
            "quarantined": quarantined,
        }
        Output().json(facts)
    elif settings.terminal:
        counts = f"{many(files, 'file')}, {many(rows, 'row')}, {size(written)}"
        note(f"{out}: {counts} in {duration(seconds)}")
    else:
        Output().line(tsv_line([out, files, rows, written, round(seconds, 3)]))
    for end in failed:
        warn(f"queue {end.wanted.queue}: exported up to offset {end.reached}: {end.error}")
    for one in damaged:
        warn(f"{one.store}: nothing exported: {one.error}")
    if undecoded:
        warn(f"{many(undecoded, 'body')} did not decode: value is null")
    if quarantined:
        warn(f"{many(quarantined, 'body')} did not decode: added to the quarantine")
    if failed or damaged:
        warn(remedy(summary))
    elif not rows and not quarantined:
        warn("no messages in this range")


def remedy(summary: ExportSummary) -> str:
    """Return how to continue after an incomplete export."""
    if summary.failed:
        return "the export is incomplete; --resume continues where each queue ended"
    if summary.lost and not summary.damaged:
        return "messages that no longer exist are missing; --resume continues behind them"
    return "the export is incomplete; --resume adds a store that has been repaired (`rmq inspect salvage`)"


def _failure(end: QueueEnd) -> dict[str, object]:
    queue = end.wanted.queue
    return {
        "topic": queue.topic,
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
        "queueOffset": end.reached,
        "reason": str(end.error),
    }
