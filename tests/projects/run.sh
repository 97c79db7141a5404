#!/usr/bin/env bash
# Runs the test suites of other projects, unchanged, with redis-server and with keylatch, and compares the results.
#
#   tests/projects/run.sh PATH-TO-KEYLATCH [project...]
#
# projects.sh defines the projects: source, version, packages that the tests need, and how the suite is run. Each suite
# is run twice in the same environment. A network namespace of its own has the server at port 6379, and the names
# redis-server and valkey-server in PATH are that server, for suites that start it themselves. Whatever a suite leaves
# behind is ended with the namespace.
#
# Prints a row of the table in results.md for each project: tests passed, failed and skipped with each server, and then
# every test whose outcome differs. Ends with 1 if a test passes with redis-server and not with keylatch.
#
#   WORK=folder        keeps sources, packages, reports and logs, so that the next run need not fetch them
#   LIMIT=1200         the maximum duration of a suite with one server, in seconds
#   GIT=URL            where owner/name.git is cloned from; by default GitHub
#   SERVERS=keylatch   runs with this server only, and compares with the earlier report of the other
#
# Needed besides: redis-server and redis-cli, python3 (3.11) with venv, node 20, npm, cargo with nextest, git, unshare, ip.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
declare -A kind version base source packages prepare server topology suite
. "$here/projects.sh"
. "$here/topology.sh"

# Waits until the server at port 6379 replies.
wait_for_server() {
    for _ in $(seq 100); do
        [ "$(redis-cli ping 2>/dev/null)" = PONG ] && return
        sleep 0.1
    done
    echo 'the server does not start' >&2
    exit 1
}

# Inside the namespace: starts the server of PATH and runs the suite of a project, which writes $report.
inside() {
    local name=$1 data of_topology=
    data=$(mktemp -d)
    ip link set lo up
    if [ -n "${topology[$name]:-}" ] && redis-server --version | grep -q keylatch; then
        of_topology=$(topology_arguments ${topology[$name]})
    fi
    (cd "$data" && exec redis-server --port 6379 --bind 127.0.0.1 --save '' ${server[$name]:-} $of_topology \
        >"$report.server.log" 2>&1) &
    wait_for_server
    [ -z "${topology[$name]:-}" ] || start_topology ${topology[$name]} >"$report.topology.log" 2>&1
    cd "$tree"
    [ ! -d "$venv" ] || export PATH=$venv/bin:$PATH
    export report PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
    eval "${suite[$name]}" >"$report.log" 2>&1 </dev/null || true
    rm -rf "$data"
}

# Fetches the source of a project into $tree and installs what its tests need.
fetch() {
    local name=$1 from=${source[$1]} archive
    [ ! -e "$folder/ready" ] || return 0
    rm -rf "$folder"
    mkdir -p "$tree"
    case $from in
    pypi:*)
        python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$folder" \
            "${from#pypi:}==${version[$name]}"
        archive=("$folder"/*.tar.gz)
        tar xzf "${archive[0]}" -C "$tree" --strip-components 1
        ;;
    git:*)
        git -c advice.detachedHead=false clone --quiet --branch "${from#*@}" --depth 1 \
            "${GIT:-https://github.com}/$(sed 's/^git://; s/@.*//' <<<"$from").git" "$tree"
        ;;
    esac
    if [ -n "${packages[$name]:-}" ]; then
        python3 -m venv "$venv"
        (cd "$tree" && eval "'$venv/bin/pip' install --quiet --disable-pip-version-check ${packages[$name]}")
    fi
    (cd "$tree" && eval "${prepare[$name]:-}")
    touch "$folder/ready"
}

# Suites of the same source have a folder for their reports each.
set_paths() {
    reports=$WORK/$1 folder=$WORK/${base[$1]:-$1}
    tree=$folder/source venv=$folder/venv
}

if [ "$1" = --inside ]; then
    set_paths "$2"
    inside "$2"
    exit
fi

binary=$(realpath "${1:?usage: run.sh PATH-TO-KEYLATCH [project...]}")
shift
if [ -z "${WORK:-}" ]; then
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi
WORK=$(realpath -m "$WORK")
export WORK
redis=$(command -v redis-server)
for program in redis-server keylatch; do
    mkdir -p "$WORK/bin/$program"
    target=$binary
    [ $program = keylatch ] || target=$redis
    for name in redis-server valkey-server; do ln -sf "$target" "$WORK/bin/$program/$name"; done
    ln -sf "$(command -v redis-cli)" "$WORK/bin/$program/valkey-cli"
done

status=0
[ $# -gt 0 ] || set -- $projects
for name; do
    set_paths "$name"
    fetch "${base[$name]:-$name}"
    mkdir -p "$reports"
    for program in ${SERVERS:-redis-server keylatch}; do
        report=$reports/$program.xml
        rm -f "$report"
        report=$report PATH=$WORK/bin/$program:$PATH timeout -k 10 "${LIMIT:-1200}" \
            unshare --user --map-root-user --net --pid --mount-proc --fork --kill-child \
            bash "${BASH_SOURCE[0]}" --inside "$name" || echo "$name with $program: status $?" >&2
    done
    python3 "$here/compare.py" "$name" "${version[$name]}" "${kind[$name]}" "$reports"/{redis-server,keylatch}.xml ||
        status=1
done
exit $status
