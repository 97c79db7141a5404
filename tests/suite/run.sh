#!/bin/bash
# Runs the test suite of Redis or Valkey with keylatch in place of their server, unit by unit.
#
#   tests/suite/run.sh CHECKOUT [--all] [--external] [unit...]
#
# CHECKOUT is a checkout of the repository of Redis at 7.0.15, of Redis or of Valkey at October 2024, or of Valkey 9.0; the
# table for it is results-7.0.txt, results-redis.txt, results-valkey.txt or results-valkey-9.0.txt. Nothing of the checkout
# is built or changed: the suite is copied to a folder of its own that is removed in the end. Needed besides: tclsh 8.5 or
# later, and redis-cli and redis-benchmark, from CHECKOUT/src or from PATH. The units with "tls" in the table need the Tcl
# package tls, too.
#
# Without units it runs those of the table, and leaves out the tests that the table names. --all runs these as well. A
# reason with an exclamation mark is that of a test which runs and fails, because later tests build on what it does.
# For Valkey's suite keylatch answers as Valkey: extended-redis-compatibility is no, through the environment. So is
# aof-checksum: the suites read append-only files with a parser that knows no annotations.
# --external starts keylatch first and has the suite use it by its address; the suite itself leaves out the tests that
# need a server of their own.
#
#   KEYLATCH=path      the binary; by default target/release/keylatch
#   PORT=29000         the first of the ports that are used
#   LIMIT=300          the maximum duration of a unit, in seconds
#   LOGS=folder        keeps what the suite prints of each unit
#
# Prints for each unit how many tests passed, failed as the table says, failed otherwise, and were left out: by the table,
# and by a tag (the suite's own are tests that need gigabytes). Then come the names of those that failed otherwise. Ends
# with 1 if there are any or a unit did not come to its end.
set -u

here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "${1:?usage: run.sh CHECKOUT [--all] [--external] [unit...]}" && pwd) || exit 2
shift
skips=yes external=no
while :; do
    case "${1:-}" in
    --all) skips=no ;;
    --external) external=yes ;;
    *) break ;;
    esac
    shift
done
keylatch=$(realpath "${KEYLATCH:-$here/../../target/release/keylatch}") || exit 2
port=${PORT:-29000}

if [ -e "$checkout/valkey.conf" ]; then
    name=valkey table=results-valkey.txt
    grep -q '"9\.' "$checkout/src/version.h" && table=results-valkey-9.0.txt
elif grep -q '"7\.0\.' "$checkout/src/version.h"; then
    name=redis table=results-7.0.txt
else
    name=redis table=results-redis.txt
fi
table=$here/$table
[ $name = redis ] || export KEYLATCH_EXTENDED_REDIS_COMPATIBILITY=no
export KEYLATCH_AOF_CHECKSUM=no

root=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null; rm -rf "$root"' EXIT
logs=${LOGS:-$root/logs}
mkdir -p "$root/src" "$logs"
logs=$(cd "$logs" && pwd)
cp -r "$checkout/tests" "$checkout/utils" "$checkout/$name.conf" "$root"
mkdir -p "$root/tests/tmp"
ln -s "$keylatch" "$root/src/$name-server"
for tool in cli benchmark check-aof check-rdb; do
    if [ -x "$checkout/src/$name-$tool" ]; then found=$checkout/src/$name-$tool; else found=$(command -v "redis-$tool"); fi
    [ -n "$found" ] || continue
    # Not a link: the tools of Redis are a server by any other name.
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$found" >"$root/src/$name-$tool"
    chmod +x "$root/src/$name-$tool"
done
cd "$root" || exit 2

# The words behind the name of a unit in the table: the numbers of tests that pass, then options.
row() { awk -v unit="$1" '$1 == unit { $1 = ""; print; exit }' "$table"; }
# The names of the tests of a unit that the table leaves out, and of those that are to fail.
tests() { awk -v unit="$1" -v kind="$2" '/^[^ #=]/ { inside = $1 == unit } $1 ~ kind && inside { sub(/^ *[^:]*: /, ""); print }' "$table"; }
# Succeeds if a process accepts connections at the port.
is_open() { (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }

# Starts a server for one unit of the external mode.
start_server() {
    mkdir -p external
    (cd external && exec "$keylatch" --port "$port" --bind 127.0.0.1 --save '' --enable-protected-configs yes \
        --enable-debug-command yes --enable-module-command yes >>"$logs/external.log" 2>&1) &
    server=$!
    for _ in $(seq 100); do is_open && return; sleep 0.1; done
    echo "keylatch does not start: see external.log" >&2
    exit 2
}

[ $# -gt 0 ] || set -- $(awk '/^(unit|integration)\// { print $1 }' "$table")
status=0
for unit; do
    log=$logs/${unit//\//_}.log
    options=(--single "$unit" --clients 1 --durable)
    for word in $(row "$unit"); do
        case $word in
        encoding) options+=(--ignore-encoding) ;;
        tls) options+=(--tls); [ -e tests/tls/ca.crt ] || utils/gen-test-certs.sh >"$logs/certificates.log" 2>&1 ;;
        -*) options+=(--tags "$word") ;;
        esac
    done
    if [ $skips = yes ]; then
        tests "$unit" '^[a-z]+:$' >skipped.txt
        options+=(--skipfile skipped.txt)
    fi
    if [ $external = yes ]; then
        case " ${options[*]} " in *" --tls "*) continue ;; esac # the suite starts its servers with TLS itself
        start_server
        options+=(--host 127.0.0.1 --port "$port" --baseport $((port + 100)))
    else
        options+=(--baseport "$port")
    fi
    timeout -s KILL "${LIMIT:-300}" tclsh tests/test_helper.tcl "${options[@]}" 2>&1 | sed -u 's/\x1b\[[0-9;]*m//g' >"$log"
    [ -z "$server" ] || { kill -9 "$server"; wait "$server"; server=; } 2>/dev/null
    # The servers that a unit has left behind when it was cut off.
    for pid in $(pgrep -f "^src/$name-server "); do
        case $(readlink "/proc/$pid/cwd") in "$root"*) kill -9 "$pid" ;; esac
    done
    count() { grep -ac "$1" "$log"; }
    tests "$unit" '^[a-z]+!:$' >expected.txt
    grep -a '^\[err\]' "$log" | sed 's/^\[err\]: //; s/ in tests\/.*//' >failed.txt
    failed=$(grep -cvxFf expected.txt failed.txt)
    printf '%-26s %4d passed %2d failed as expected %4d failed %4d left out %3d by tag' "$unit" \
        "$(count '^\[ok\]')" "$(grep -cxFf expected.txt failed.txt)" "$failed" "$(count '^\[skip\]')" "$(count '^\[ignore\]')"
    grep -aq '^Execution time' "$log" && echo || { echo '  cut off'; status=1; }
    grep -vxFf expected.txt failed.txt | sed 's/^/    /'
    [ "$failed" = 0 ] || status=1
done
exit $status
