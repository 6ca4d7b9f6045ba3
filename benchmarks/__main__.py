"""Runs the named groups of benchmarks, or all: `python -m benchmarks [NAME …] [--json] [--list]`."""

from __future__ import annotations

import argparse
import sys

from benchmarks import (
    batches,
    broker,
    cli,
    clients,
    codec,
    consume,
    export,
    faces,
    filters,
    grpc,
    inspections,
    neighbours,
    scan,
    signing,
    spark,
    stores,
    tls,
    verify,
)
from benchmarks.harness import Benchmark, Measured

GROUPS: dict[str, Benchmark] = {
    "sends": broker.sends,
    "syncs": broker.syncs,
    "cold": broker.cold,
    "batches": batches.batches,
    "batches-sent": batches.batches_sent,
    "pulls": broker.pulls,
    "memory": broker.memory,
    "start": broker.start,
    "grpc": grpc.grpc,
    "grpc-hostile": grpc.hostile,
    "pops": grpc.pops,
    "neighbours": neighbours.neighbours,
    "codec": codec.frames_and_records,
    "scan": scan.scan,
    "exports": export.exports,
    "verify": verify.verify,
    "inspections": inspections.inspections,
    "filters": filters.filters,
    "stores": stores.stores,
    "spark": spark.spark,
    "clients": clients.clients,
    "client-cpu": clients.client_cpu,
    "faces": faces.faces,
    "consume": consume.consume,
    "signing": signing.signing,
    "tls": tls.tls,
    "cli": cli.cli,
}


def line(measured: Measured) -> str:
    ratio = "" if measured.ratio is None else f"{measured.ratio:8.2f} × {measured.against}"
    target = f"  (target {measured.target})" if measured.target else ""
    return f"{measured.name:<50} {measured.value:>12,.2f} {measured.unit:<7}{ratio}{target}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(GROUPS)}; default: all")
    parser.add_argument("--json", action="store_true", help="one JSON line a measurement")
    parser.add_argument("--list", action="store_true", help="the names, and end")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in GROUPS]:
        parser.error(f"no benchmark is called {unknown[0]}")
    if arguments.list:
        print("\n".join(GROUPS))
        return
    print(f"{sys.version} at {sys.executable}", file=sys.stderr)
    for name in arguments.names or GROUPS:
        for measured in GROUPS[name]():
            print(measured.as_json() if arguments.json else line(measured))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
