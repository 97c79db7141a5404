#!/bin/bash
# Runs Redis' own test-suite with keylatch in place of redis-server, unit by unit.
#
#   tests/suite/run.sh CHECKOUT [--all] [unit...]
#
# CHECKOUT is a checkout of the repository of Redis at 7.0.15. Nothing of it is built or changed: the suite is copied
# to a folder of its own that is removed in the end. Needed besides: tclsh 8.5 or later, and redis-cli and
# redis-benchmark, from CHECKOUT/src or from PATH. The units with "tls" in results.txt need the Tcl package tls, too.
#
# Without units it runs those of results.txt, and leaves out the tests that the table names: they need what keylatch
# does not have, and many would drag the tests behind them along. --all runs them nevertheless. A reason with an
# exclamation mark is that of a test which runs and fails, because those behind it build on what it does.
#
#   KEYLATCH=path      the binary; by default target/release/keylatch
#   PORT=29000         the first of the ports that are used
#   LIMIT=300          how many seconds a unit may take
#   LOGS=folder        keeps what the suite prints of each unit
#
# Prints for each unit how many tests passed, failed as the table says, failed otherwise, and were left out: by the table,
# and by a tag (the suite's own are tests that need gigabytes). Then come the names of those that failed otherwise. Ends
# with 1 if there are any or a unit did not come to its end.
set -u

here=$(cd "$(dirname "$0")" && pwd)
table=$here/results.txt
checkout=$(cd "${1:?usage: run.sh CHECKOUT [--all] [unit...]}" && pwd) || exit 2
shift
skips=yes
if [ "${1:-}" = --all ]; then skips=no; shift; fi
keylatch=$(realpath "${KEYLATCH:-$here/../../target/release/keylatch}") || exit 2

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
logs=${LOGS:-$root/logs}
mkdir -p "$root/src" "$logs"
logs=$(cd "$logs" && pwd)
cp -r "$checkout/tests" "$checkout/utils" "$checkout/redis.conf" "$root"
mkdir -p "$root/tests/tmp"
ln -s "$keylatch" "$root/src/redis-server"
for tool in redis-cli redis-benchmark redis-check-aof redis-check-rdb; do
    if [ -x "$checkout/src/$tool" ]; then found=$checkout/src/$tool; else found=$(command -v "$tool"); fi
    [ -n "$found" ] && ln -s "$found" "$root/src/$tool"
done
cd "$root" || exit 2

# The words behind the name of a unit in the table: the number of tests that pass, then options.
row() { awk -v unit="$1" '$1 == unit { $1 = ""; print; exit }' "$table"; }
# The names of the tests of a unit that the table leaves out, and of those that are to fail.
tests() { awk -v unit="$1" -v kind="$2" '/^[^ #=]/ { inside = $1 == unit } $1 ~ kind && inside { sub(/^ *[^:]*: /, ""); print }' "$table"; }

[ $# -gt 0 ] || set -- $(awk '/^(unit|integration)\// { print $1 }' "$table")
status=0
for unit; do
    log=$logs/${unit//\//_}.log
    options=(--single "$unit" --clients 1 --durable --baseport "${PORT:-29000}")
    for word in $(row "$unit"); do
        case $word in
        tls) options+=(--tls); [ -e tests/tls/ca.crt ] || utils/gen-test-certs.sh >"$logs/certificates.log" 2>&1 ;;
        -*) options+=(--tags "$word") ;;
        esac
    done
    if [ $skips = yes ]; then
        tests "$unit" '^[a-z]+:$' >skipped.txt
        options+=(--skipfile skipped.txt)
    fi
    timeout -s KILL "${LIMIT:-300}" tclsh tests/test_helper.tcl "${options[@]}" 2>&1 | sed -u 's/\x1b\[[0-9;]*m//g' >"$log"
    # The servers that a unit has left behind when it was cut off.
    for pid in $(pgrep -f '^src/redis-server '); do
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
