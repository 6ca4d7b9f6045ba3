#!/usr/bin/env bash
# The main job on the embedded broker: a cluster, messages in, messages out, offsets, the files, Parquet here and on Spark.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
work=$(mktemp -d)
export XDG_STATE_HOME=$work # the undo files of this run go with it
cluster=""
finish() {
    [ -z "$cluster" ] || kill "$cluster" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

show() { printf '\n$ %s\n' "$*"; "$@"; }

printf '$ rmq up --json --port 0 --namesrv-port 0 --store %s/store &\n' "$work"
rmq up --json --port 0 --namesrv-port 0 --store "$work/store" >"$work/up.json" &
cluster=$!
for _ in $(seq 100); do
    [ -s "$work/up.json" ] && break
    kill -0 "$cluster" || exit 1
    sleep 0.05
done
cat "$work/up.json"
RMQ_NAMESRV=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["namesrv"])' "$work/up.json")
export RMQ_NAMESRV

show rmq topic create Orders --queues 4
show rmq send Orders '{"order": 1, "state": "paid"}' -t paid -k order-1 -p shop=berlin
printf '\n$ seq 1 10000 | rmq send Orders -t bulk | tail -n 3\n'
seq 1 10000 | rmq send Orders -t bulk | tail -n 3
show rmq pull Orders --tag paid --json
show rmq tail Orders --last 3 --idle 0.2 -f '%q:%o %v\n'
show rmq query Orders --key order-1
show rmq topic stats Orders
show rmq offsets reset billing Orders --to end --yes
show rmq offsets reset billing Orders --to -100 --dry-run
show rmq group describe billing
show rmq inspect commitlog "$work/store/commitlog/00000000000000000000" --stats
show rmq inspect commitlog "$work/store/commitlog/00000000000000000000" --verify
show rmq export --topic Orders --out "$work/live"
kill "$cluster"
wait "$cluster"
cluster=""
show rmq export --store "$work/store" --out "$work/parquet"
show rmq export --store "$work/store" --out "$work/spark" --spark
printf '\n$ python -c "…"   # both exports, read back\n'
python - "$work" <<'PY'
import sys

import pyarrow.parquet as parquet

for name in ("live", "parquet", "spark"):
    table = parquet.read_table(f"{sys.argv[1]}/{name}")
    orders = sum(topic == "Orders" for topic in table["topic"].to_pylist())
    print(f"{name:8} {table.num_rows:6} rows, {orders} of Orders")
    assert orders == 10001
PY
printf '\ndemo: done\n'
