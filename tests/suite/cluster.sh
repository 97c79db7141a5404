#!/bin/bash
# Runs the cluster suite of Redis with the nodes of a topology in place of its processes, file by file.
#
#   tests/suite/cluster.sh CHECKOUT [test...]
#
# CHECKOUT is a checkout of the repository of Redis at 7.0.15; the table for it is cluster-7.0.txt. Nothing of the checkout is
# built or changed: the suite is copied to a folder of its own that is removed in the end. Needed besides: tclsh 8.5 or later,
# python3, redis-cli, unshare, ip.
#
# A test is a file of tests/cluster/tests, by its number or by what its name contains, or one of tests/unit, as
# unit/cluster/misc; without any it runs those of the table. Each is run in a network namespace of its own, with one keylatch in
# test mode; what the suite starts, kills and stops as the processes of its nodes is tests/projects/stand-in/node.py, which does
# the same to nodes of a topology.
#
# In the copy of what each file begins with, two calls may fail: a simulated node has no configuration file for CONFIG REWRITE,
# and its repl-diskless-load is that of the process.
#
#   KEYLATCH=path      the binary; by default target/release/keylatch. With redis-server its processes are the nodes
#   LIMIT=300          the maximum duration of a file, in seconds
#   LOGS=folder        keeps what the suite prints of each file
#
# Prints for each file how many tests passed, failed as the table says, and failed otherwise, and the names of those that
# failed otherwise. Ends with 1 if there are any, if other tests passed than the table says, or if a file did not come to its
# end.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Inside the namespace, in the copy: runs a file, beside a server at port 6379 if that is to simulate the nodes.
if [ "$1" = --inside ]; then
    ip link set lo up
    if [ -e simulated ]; then
        export PATH=$PWD/bin:$PATH
        (cd bin && exec redis-server --port 6379 --bind 127.0.0.1 --save '' --test-mode yes --enable-debug-command yes \
            --topology-ports 30000-30999 --namespace-linger 2000000000 >server.log 2>&1) &
        until [ "$(redis-cli ping 2>/dev/null)" = PONG ]; do sleep 0.1; done
    fi
    export NODE_TIMEOUT=3000
    case $2 in
    unit/*) exec tclsh tests/test_helper.tcl --single "$2" --clients 1 --durable --baseport 30000 --portcount 500 ;;
    *) exec tclsh tests/cluster/run.tcl --single "/$2.tcl" ;;
    esac
fi

checkout=$(cd "${1:?usage: cluster.sh CHECKOUT [test...]}" && pwd) || exit 2
shift
keylatch=$(realpath "${KEYLATCH:-$here/../../target/release/keylatch}") || exit 2
table=$here/cluster-7.0.txt
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
logs=${LOGS:-$root/logs}
mkdir -p "$root/src" "$root/bin" "$logs"
logs=$(cd "$logs" && pwd)

cp -r "$checkout/tests" "$checkout/utils" "$checkout/redis.conf" "$root"
mkdir -p "$root/tests/cluster/tmp" "$root/tests/tmp"
sed -i -E 's/^ *(R \$id config (rewrite|set repl-diskless-load .*))$/catch {\1}/' \
    "$root/tests/cluster/tests/includes/init-tests.tcl"
for tool in cli benchmark; do
    if [ -x "$checkout/src/redis-$tool" ]; then found=$checkout/src/redis-$tool; else found=$(command -v "redis-$tool"); fi
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$found" >"$root/src/redis-$tool" # not a link: it is a server by any other name
    chmod +x "$root/src/redis-$tool"
done
ln -s "$keylatch" "$root/bin/redis-server"
if "$keylatch" --version | grep -q keylatch; then
    touch "$root/simulated"
    ln -s "$here/../projects/stand-in/node.py" "$root/src/redis-server"
else
    ln -s "$keylatch" "$root/src/redis-server"
fi

# Prints the number of passing tests of a file, by the table.
count() { awk -v file="$1" '$1 == file { print $2; exit }' "$table"; }
# The names of the tests of a file that are to fail.
expected() {
    awk -v file="$1" '/^[^ #=]/ { inside = $1 == file }
        $1 ~ /^[a-z]+!:$/ && inside { sub(/^ *[^:]*: /, ""); print }' "$table"
}

cd "$root" || exit 2
[ $# -gt 0 ] || set -- $(awk '/^[0-9u]/ { print $1 }' "$table")
status=0
for test; do
    case $test in unit/*) paths=(tests/$test.tcl) ;; *) paths=(tests/cluster/tests/*"$test"*.tcl) ;; esac
    for path in "${paths[@]}"; do
        file=$(sed 's/\.tcl$//; s/^tests\///; s/^cluster\/tests\///' <<<"$path")
        log=$logs/cluster_${file//\//_}.log
        timeout -k 10 "${LIMIT:-300}" unshare --user --map-root-user --net --pid --mount-proc --fork --kill-child \
            bash "$here/cluster.sh" --inside "$file" 2>&1 | sed -u 's/\x1b\[[0-9;]*m//g' >"$log"
        # A line begins with the time and the name of a test; its result follows there, or after what the test prints.
        awk 'function end() { if (name != "") print "failed " name; name = "" }
            /^[0-9:]+> / { end(); name = $0; sub(/^[0-9:]+> /, "", name); sub(/: .*/, "", name) }
            name != "" && /OK$/ { print "passed " name; name = "" }
            /^\[(ok|err|exception)\]: / { name = $0; sub(/^[^ ]* /, "", name); sub(/( in tests\/.*| \([0-9]+ ms\))$/, "", name)
                print (/^\[ok/ ? "passed " : "failed ") name; name = "" }
            END { end() }' "$log" >outcomes.txt
        passed=$(grep -c '^passed' outcomes.txt)
        expected "$file" >expected.txt
        sed -n 's/^failed //p' outcomes.txt >failed.txt
        failed=$(grep -cvxFf expected.txt failed.txt)
        printf '%-32s %3d passed %2d failed as expected %3d failed' "$file" "$passed" \
            "$(grep -cxFf expected.txt failed.txt)" "$failed"
        grep -aqE '^GOOD!|^WARNING [0-9]+ test|The End' "$log" && echo || { echo '  cut off'; status=1; }
        grep -vxFf expected.txt failed.txt | sed 's/^/    /'
        case $(count "$file") in
        - | "$passed") [ "$failed" = 0 ] || status=1 ;;
        *) status=1 ;;
        esac
    done
done
exit $status
