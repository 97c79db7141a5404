#!/bin/bash
# Runs the Sentinel suite of Redis with keylatch as the servers that the sentinels watch, file by file.
#
#   tests/suite/sentinel.sh CHECKOUT [test...]
#
# CHECKOUT is a checkout of the repository of Redis at 7.0.15; the table for it is sentinel-7.0.txt. Nothing of the checkout
# is built or changed: the suite is copied to a folder of its own that is removed in the end. Needed besides: tclsh 8.5 or
# later, and redis-server, which is the sentinels, from CHECKOUT/src or from PATH.
#
# A test is a file of tests/sentinel/tests, by its number or by what its name contains; without any it runs those of the
# table. Each gets sentinels and servers of its own.
#
#   KEYLATCH=path      the binary; by default target/release/keylatch
#   PORT=26000         the first of the ports that are used: sentinels from there, servers from 1000 above
#   LIMIT=300          the maximum duration of a file, in seconds
#   LOGS=folder        keeps what the suite prints of each file
#
# Prints for each file how many tests passed, failed as the table says, and failed otherwise, and the names of those that
# failed otherwise. Ends with 1 if there are any, if other tests passed than the table says, or if a file did not come to
# its end.
set -u

here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "${1:?usage: sentinel.sh CHECKOUT [test...]}" && pwd) || exit 2
shift
keylatch=$(realpath "${KEYLATCH:-$here/../../target/release/keylatch}") || exit 2
port=${PORT:-26000}
table=$here/sentinel-7.0.txt
if [ -x "$checkout/src/redis-server" ]; then redis=$checkout/src/redis-server; else redis=$(command -v redis-server); fi
[ -n "$redis" ] || { echo "no redis-server for the sentinels" >&2; exit 2; }

root=$(mktemp -d)
logs=${LOGS:-$root/logs}
mkdir -p "$root/src" "$logs"
logs=$(cd "$logs" && pwd)

# Ends the processes that a file has left behind: those that work in the folder.
end_rest() {
    for dir in /proc/[0-9]*; do
        case $(readlink "$dir/cwd") in "$root"/*) kill -9 "${dir#/proc/}" ;; esac
    done 2>/dev/null
}
trap 'cd /; end_rest; rm -rf "$root"' EXIT

cp -r "$checkout/tests" "$root"
mkdir -p "$root/tests/sentinel/tmp"
ln -s "$keylatch" "$root/src/redis-server"
printf '#!/bin/sh\nexec "%s" "$@" --sentinel\n' "$redis" >"$root/src/redis-sentinel"
chmod +x "$root/src/redis-sentinel"
ports="set ::sentinel_base_port $port; set ::redis_base_port $((port + 1000)); set ::redis_port_count 900"
sed -i "s/^proc main {} {/$ports\n&/" "$root/tests/sentinel/run.tcl"

# Prints the number of passing tests of a file, by the table.
count() { awk -v file="$1" '$1 == file { print $2; exit }' "$table"; }
# The names of the tests of a file that are to fail.
expected() { awk -v file="$1" '/^[^ #=]/ { inside = $1 == file } $1 ~ /^[a-z]+!:$/ && inside { sub(/^ *[^:]*: /, ""); print }' "$table"; }

cd "$root" || exit 2
[ $# -gt 0 ] || set -- $(awk '/^[0-9]/ { print $1 }' "$table")
status=0
for test; do
    for path in tests/sentinel/tests/*"$test"*.tcl; do
        file=$(basename "$path" .tcl)
        log=$logs/sentinel_$file.log
        (exec timeout -s KILL "${LIMIT:-300}" tclsh tests/sentinel/run.tcl --single "$file" 2>&1) |
            sed -u 's/\x1b\[[0-9;]*m//g' >"$log"
        end_rest
        # A line begins with the time and the name of a test; its result follows there.
        grep -aE '^[0-9:]+> ' "$log" | sed -E 's/^[0-9:]+> //' >lines.txt
        passed=$(grep -c ': .*OK$' lines.txt)
        expected "$file" >expected.txt
        grep -aE ': (FAILED|ERROR)' lines.txt | sed -E 's/: (FAILED|ERROR).*//' >failed.txt
        failed=$(grep -cvxFf expected.txt failed.txt)
        printf '%-20s %3d passed %2d failed as expected %3d failed' "$file" "$passed" \
            "$(grep -cxFf expected.txt failed.txt)" "$failed"
        grep -aqE '^GOOD!|^[0-9]+ failed|^WARNING [0-9]+ test' "$log" && echo || { echo '  cut off'; status=1; }
        grep -vxFf expected.txt failed.txt | sed 's/^/    /'
        [ "$failed" = 0 ] && [ "$passed" = "$(count "$file")" ] || status=1
    done
done
exit $status
