#!/usr/bin/env bash
# The main job on the embedded broker: a cluster, messages in, messages out, offsets, the files, Parquet.
# With --spark, Spark exports the same store, too.
set -euo pipefail
cd "$(dirname "$0")/.."
exports=(live parquet)
[ "${1:-}" != --spark ] || exports+=(spark)
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

# Prints a command as a shell reads it, then runs it.
show() {
    local word line=
    for word in "$@"; do
        [[ $word =~ ^[A-Za-z0-9_./:=@%+,-]+$ ]] || word="'${word//\'/\'\\\'\'}'"
        line+=" $word"
    done
    printf '\n$%s\n' "$line"
    "$@"
}

printf '$ export PATH=%q:$PATH\n' "$PWD/.venv/bin"
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
printf '\n$ export RMQ_NAMESRV=%s\n' "$RMQ_NAMESRV"

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
[ ${#exports[@]} = 2 ] || show rmq export --store "$work/store" --out "$work/spark" --spark
printf '\nThe exports, read by pyarrow:\n'
python - "$work" "${exports[@]}" <<'PY'
import sys

import pyarrow.parquet as parquet

for name in sys.argv[2:]:
    table = parquet.read_table(f"{sys.argv[1]}/{name}")
    orders = sum(topic == "Orders" for topic in table["topic"].to_pylist())
    print(f"{name:8} {table.num_rows:6} rows, {orders} of Orders")
    assert orders == 10001
PY
printf '\nThe demo has removed its cluster and its files. To go on by hand:\n'
printf '    %q up          # in one terminal\n' "$PWD/.venv/bin/rmq"
printf '    %q send Orders hello   # in another\n' "$PWD/.venv/bin/rmq"
[ ${#exports[@]} = 3 ] || printf 'make demo-spark shows an export by Spark, too; it installs 600 MB more.\n'
printf 'demo: done\n'
