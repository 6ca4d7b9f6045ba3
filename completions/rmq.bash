# bash completion for rmq. Made by python -m rmqcli.manual; do not edit.

# Sets commands, options, values (options that take one), files (those whose value is a path) and paths (yes: an argument
# is a path) for the command "$1".
_rmq_describe() {
    commands="" options="" values="" files="" paths=""
    case "$1" in
        "")
            commands="send request pull tail consume query trace topic group offsets cluster inspect export import up broker namesrv profile"
            options="-V --version -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "send")
            options="-k --key -t --tag -p --property -q --queue -b --broker --delay-level --delay --file --delimiter --whole --jsonl --oneway --batch --concurrency --rate --transaction --check --wait --trace -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-k --key -t --tag -p --property -q --queue -b --broker --delay-level --delay --file --delimiter --batch --concurrency --rate --transaction --check --wait -n --namesrv --profile --timeout"
            files="--file"
            ;;
        "request")
            options="-k --key -t --tag -p --property -f --format -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-k --key -t --tag -p --property -f --format -n --namesrv --profile --timeout"
            ;;
        "pull")
            options="-q --queue -b --broker -o --offset -c --count -t --tag --sql -f --format -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-q --queue -b --broker -o --offset -c --count -t --tag --sql -f --format -n --namesrv --profile --timeout"
            ;;
        "tail")
            options="--last -q --queue -b --broker -c --count --idle -t --tag --sql -f --format -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--last -q --queue -b --broker -c --count --idle -t --tag --sql -f --format -n --namesrv --profile --timeout"
            ;;
        "consume")
            options="-g --group --orderly --broadcast --from --balance -t --tag --sql --exec --reply --retries -j --jobs --trace -c --count --idle -f --format -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-g --group --from --balance -t --tag --sql --exec --retries -j --jobs -c --count --idle -f --format -n --namesrv --profile --timeout"
            ;;
        "query")
            options="-k --key --id --time -c --count -f --format -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-k --key --id --time -c --count -f --format -n --namesrv --profile --timeout"
            ;;
        "trace")
            options="--id --trace-topic -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--id --trace-topic -n --namesrv --profile --timeout"
            ;;
        "topic")
            commands="list describe route stats create update delete"
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "topic list")
            options="-a --all -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "topic describe")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "topic route")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "topic stats")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "topic create")
            options="-q --queues --read-queues --write-queues --perm --order -b --broker --cluster -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-q --queues --read-queues --write-queues --perm -b --broker --cluster -n --namesrv --profile --timeout"
            ;;
        "topic update")
            options="-q --queues --read-queues --write-queues --perm -b --broker --cluster -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-q --queues --read-queues --write-queues --perm -b --broker --cluster -n --namesrv --profile --timeout"
            ;;
        "topic delete")
            options="-y --yes --cluster -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--cluster -n --namesrv --profile --timeout"
            ;;
        "group")
            commands="list describe settings create update delete clients status deliver"
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "group list")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "group describe")
            options="-t --topic -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-t --topic -n --namesrv --profile --timeout"
            ;;
        "group settings")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "group create")
            options="--retries --retry-queues --consume --no-consume --broadcast --no-broadcast --from-min --no-from-min --notify --no-notify --read-from --slow-read-from -b --broker --cluster -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--retries --retry-queues --read-from --slow-read-from -b --broker --cluster -n --namesrv --profile --timeout"
            ;;
        "group update")
            options="--retries --retry-queues --consume --no-consume --broadcast --no-broadcast --from-min --no-from-min --notify --no-notify --read-from --slow-read-from -b --broker --cluster -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--retries --retry-queues --read-from --slow-read-from -b --broker --cluster -n --namesrv --profile --timeout"
            ;;
        "group delete")
            options="-a --all -y --yes -b --broker --cluster -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-b --broker --cluster -n --namesrv --profile --timeout"
            ;;
        "group clients")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "group status")
            options="--client -t --topic --rates -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--client -t --topic -n --namesrv --profile --timeout"
            ;;
        "group deliver")
            options="-t --topic --id --client -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-t --topic --id --client -n --namesrv --profile --timeout"
            ;;
        "offsets")
            commands="show reset clone"
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "offsets show")
            options="-g --group -t --topic --clients -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-g --group -t --topic -n --namesrv --profile --timeout"
            ;;
        "offsets reset")
            options="-g --group -t --topic --to -q --queue --undo --wait --dry-run -y --yes -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-g --group -t --topic --to -q --queue --undo --wait -n --namesrv --profile --timeout"
            files="--undo"
            ;;
        "offsets clone")
            options="--from --to -t --topic --wait --dry-run -y --yes -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--from --to -t --topic --wait -n --namesrv --profile --timeout"
            ;;
        "cluster")
            commands="list producers"
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "cluster list")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "cluster producers")
            options="-g --group -b --broker -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-g --group -b --broker -n --namesrv --profile --timeout"
            ;;
        "inspect")
            commands="commitlog consumequeue store checkpoint index offsets topics groups delay transactions verify rebuild salvage"
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "inspect commitlog")
            options="-o --offset -c --count --topic -q --queue -k --key -t --tag --where -f --format --stats --explain --verify --jobs -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-o --offset -c --count --topic -q --queue -k --key -t --tag --where -f --format --jobs -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect consumequeue")
            options="-o --offset -c --count --topic -q --queue -k --key -t --tag --where -f --format --stats --explain --commit-log --verify --jobs -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-o --offset -c --count --topic -q --queue -k --key -t --tag --where -f --format --commit-log --jobs -n --namesrv --profile --timeout"
            files="--commit-log"
            paths="yes"
            ;;
        "inspect store")
            options="--topic -q --queue --group --where -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--topic -q --queue --group --where -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect checkpoint")
            options="--explain -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect index")
            options="-o --offset -c --count -k --key --topic --slots --where -f --format --stats --explain -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-o --offset -c --count -k --key --topic --slots --where -f --format -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect offsets")
            options="-o --offset -c --count --group --topic -q --queue --where -f --format --stats -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-o --offset -c --count --group --topic -q --queue --where -f --format -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect topics")
            options="--topic --where -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--topic --where -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect groups")
            options="--group --where -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--group --where -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect delay")
            options="-o --offset -c --count --topic -q --queue -k --key -t --tag --where -f --format --stats --explain --delay-levels -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-o --offset -c --count --topic -q --queue -k --key -t --tag --where -f --format --delay-levels -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect transactions")
            options="-o --offset -c --count --group --topic -q --queue -k --key -t --tag --where -f --format --stats --explain -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-o --offset -c --count --group --topic -q --queue -k --key -t --tag --where -f --format -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect verify")
            options="--jobs -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--jobs -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect rebuild")
            options="-o --out --in-place --dry-run --delay-levels -y --yes -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-o --out --delay-levels -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "inspect salvage")
            options="-o --out -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-o --out -n --namesrv --profile --timeout"
            paths="yes"
            ;;
        "export")
            options="--out --store -t --topic -o --offset -q --queue --tag --verify --no-verify --spark --master --conf --partition-by --columns --body-text --compression --file-size --row-group-size --jobs --resume -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--out --store -t --topic -o --offset -q --queue --tag --master --conf --partition-by --columns --compression --file-size --row-group-size --jobs -n --namesrv --profile --timeout"
            files="--out --store"
            ;;
        "import")
            options="-t --topic --queues --rate --dry-run --resume --progress -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-t --topic --queues --rate --progress -n --namesrv --profile --timeout"
            files="--progress"
            paths="yes"
            ;;
        "up")
            options="--port --namesrv-port --host --store -c --config --set -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="--port --namesrv-port --host --store -c --config --set -n --namesrv --profile --timeout"
            files="--store -c --config"
            ;;
        "broker")
            options="-c --config --set --port --store -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-c --config --set --port --store -n --namesrv --profile --timeout"
            files="-c --config --store"
            ;;
        "namesrv")
            options="-c --config --set --listen -n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-c --config --set --listen -n --namesrv --profile --timeout"
            files="-c --config"
            ;;
        "profile")
            commands="list show set remove"
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "profile list")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "profile show")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "profile set")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
        "profile remove")
            options="-n --namesrv --profile --json --no-color -v --verbose --timeout -h --help"
            values="-n --namesrv --profile --timeout"
            ;;
    esac
}

_rmq() {
    local current=${COMP_WORDS[COMP_CWORD]} previous="" name="" word i
    local commands options values files paths
    COMPREPLY=()
    _rmq_describe ""
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ " $values " == *" $previous "* ]]; then
            previous=""
            continue
        fi
        previous=$word
        if [[ " $commands " == *" $word "* ]]; then
            name="${name:+$name }$word"
            _rmq_describe "$name"
        fi
    done
    if [[ -n $previous && " $files " == *" $previous "* ]]; then
        COMPREPLY=($(compgen -f -- "$current"))
    elif [[ -n $previous && " $values " == *" $previous "* ]]; then
        return
    elif [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [[ -n $commands ]]; then
        COMPREPLY=($(compgen -W "$commands" -- "$current"))
    elif [[ -n $paths ]]; then
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}

complete -o filenames -F _rmq rmq
