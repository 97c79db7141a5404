#!/usr/bin/env bash
# Runs the clients and lock libraries of other languages against a server: run.sh PATH-TO-KEYLATCH | --install
#
# With --install it only installs and builds what they need, for which no server has to be there yet.
# Everything that is written goes to target/clients. Needs python3 (3.11) with venv, node 20, npm, cargo, a
# C compiler, perl, and etcd in PATH (tests/etcd/install.sh); what else is needed is installed by apt-get. The helpers for
# Go and Java are tested where `go` (1.19) and `javac` (17) are, from golang-go and default-jdk-headless; elsewhere it is
# said that they are not, and with KEYLATCH_REQUIRE_GO or KEYLATCH_REQUIRE_JAVA that is a failure.
set -euo pipefail

: "${1:?usage: run.sh PATH-TO-KEYLATCH | --install}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(realpath -m "$here/../../target/clients")
own_packages=$(realpath "$here/../../packages")
lock=$own_packages/python/lock
mkdir -p "$work"/{node,node5}

packages=(libhiredis-dev libredis-perl php-cli php-nrk-predis php-redis prometheus prometheus-redis-exporter)
packages+=(chromium openssl redis-server redis-tools php-symfony-lock ruby-redis ruby-sidekiq webdis)
install_others() {
    if ! dpkg-query -W "${packages[@]}" >/dev/null 2>&1; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
    fi
    cc -Wall -Wextra -Werror -o "$work/walk" "$here/walk.c" -lhiredis
}
install_python() {
    [ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    # The package as users get it, from a checkout in which that leaves nothing.
    local before
    before=$(find "$lock")
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$lock"
    diff <(echo "$before") <(find "$lock") || { echo "FAILED: the build has left files in $lock" >&2; return 1; }
    install_python_5
}
# For programs that need an older redis-py. The setup of walrus imports it, so that cannot be isolated.
install_python_5() {
    [ -x "$work/venv5/bin/python" ] || python3 -m venv "$work/venv5"
    local pip=("$work/venv5/bin/pip" --quiet --disable-pip-version-check install --no-build-isolation)
    "${pip[@]}" redis==5.3.0
    "${pip[@]}" -r "$here/requirements-redis-py-5.txt"
}
install_node() {
    # Node looks for packages beside the program, so the programs go where they are.
    cp "$here"/{package.json,*.mjs} "$work/node/"
    echo '{ "private": true, "dependencies": { "ioredis": "5.0.0", "redis": "5.0.0" } }' >"$work/node5/package.json"
    cp "$own_packages/lock-conformance.json" "$work/"
    local folder
    for folder in "$work"/{node,node5}; do
        rm -rf "$folder/lock" && cp -r "$own_packages/node/lock" "$folder/lock"
        npm install --prefix "$folder" --silent --no-audit --no-fund --no-package-lock
    done
}
install_rust() {
    cargo build --quiet --locked --manifest-path "$here/rust/Cargo.toml" --target-dir "$work/rust" \
        --bin keylatch-client-checks
    local lock=(--quiet --locked --manifest-path "$own_packages/rust/lock/Cargo.toml" --target-dir "$work/rust-lock")
    cargo fmt --check --manifest-path "$own_packages/rust/lock/Cargo.toml"
    cargo clippy "${lock[@]}" --all-features --all-targets -- -D warnings
    cargo test "${lock[@]}" --all-features --no-run
}
# Runs a function beside what runs already: start FUNCTION [ARGUMENT...]
running=()
start() { (set -e; running=(); "$@") & running+=($!); }
# Waits for all that was started; fails if one of them has.
finish() {
    local each
    for each in "${running[@]}"; do wait "$each"; done
    running=()
}

for part in others python node rust; do start "install_$part"; done # most of it waits for the network
finish
[ "$1" != --install ] || exit 0
binary=$(realpath "$1")
export PYTHONDONTWRITEBYTECODE=1

# Starts a number of new servers and runs a program with them: beside COUNT PROGRAM [ARGUMENT...]
beside() { "$work/venv/bin/python" "$here/servers.py" "$binary" "$@"; }
py() { beside "$1" "$work/venv/bin/python" "$here/$2" "${@:3}"; }
py5() { beside "$1" "$work/venv5/bin/python" "$here/$2" "${@:3}"; }
js() { beside "$1" node "$work/node/$2" "${@:3}"; }
# Starts a primary and two replicas with sentinels of Redis: watched PROGRAM [ARGUMENT...]
watched() { py 3 sentinels.py "$@"; }
free_port() { python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"; }
# Three servers with the same data in a cluster of etcd of three members: clustered PROGRAM [ARGUMENT...]
clustered() { "$work/venv/bin/python" "$here/etcd.py" 3 "$work/venv/bin/python" "$here/servers.py" "$binary" 3 "$@"; }
rs() { beside "$1" "$work/rust/debug/keylatch-client-checks"; }

# The packages keylatch-lock, by their own tests: over the newest and the oldest client libraries that they promise.
# Most of it waits for time, each part with a server of its own.
helpers() {
    local part
    for part in helper_of_{python,python_5,node,node_5,go,java,rust}; do start "$part"; done
    finish
    for part in failovers_of_{python,node,go,java,rust}; do
        start "$part" sentinel
        start "$part" etcd
    done
    finish
}
lock_tests=(-m pytest -q -p no:cacheprovider --rootdir "$lock" "$lock/tests")
tests_of_python() {
    local part
    for part in Threads 'Tasks and not Threads' 'not Threads and not Tasks'; do start every_road "$@" -k "$part"; done
    finish
}
helper_of_python() {
    tests_of_python "$work/venv/bin/python" "${lock_tests[@]}" -o pythonpath= # the installed package
    on_redis "$work/venv/bin/python" "${lock_tests[@]}" -o pythonpath= -k test_the_list_of_all_languages
}
helper_of_python_5() { tests_of_python "$work/venv5/bin/python" "${lock_tests[@]}"; }
# One file after the other, since each empties the server.
node_tests=(node --test --test-concurrency=1 --test-reporter=dot)
tests_of_node() {
    local client
    for client in 'node-redis, RESP2' 'node-redis, RESP3' ioredis; do start with_client "$client" "$1/lock/test/"; done
    finish
}
with_client() { NODE_CLIENT=$1 every_road "${node_tests[@]}" "$2"; }
helper_of_node() {
    tests_of_node "$work/node"
    on_redis "${node_tests[@]}" "$work/node/lock/test/conformance.test.js"
}
helper_of_node_5() { tests_of_node "$work/node5"; }
# Nothing is downloaded: there are no dependencies.
go=(env -C "$own_packages/go/lock" GOCACHE="$work/go" GOPROXY=off GOTOOLCHAIN=local timeout 280 go)
helper_of_go() {
    has go KEYLATCH_REQUIRE_GO || return 0
    [ -z "$(gofmt -l "$own_packages/go/lock")" ] || { echo "FAILED: gofmt -l $own_packages/go/lock" >&2; return 1; }
    "${go[@]}" vet ./...
    in_test_mode "${go[@]}" test -race -count=1 -timeout 270s ./...
    on_redis "${go[@]}" test -count=1 -run TestListOfAllLanguages ./...
}
helper_of_java() {
    has javac KEYLATCH_REQUIRE_JAVA || return 0
    in_test_mode timeout 280 "$own_packages/java/lock/test.sh" "$work/java"
    on_redis "$own_packages/java/lock/test.sh" "$work/java"
}
rust_lock=(cargo test --quiet --locked --all-features)
rust_lock+=(--manifest-path "$own_packages/rust/lock/Cargo.toml" --target-dir "$work/rust-lock")
helper_of_rust() {
    in_test_mode timeout 280 "${rust_lock[@]}"
    on_redis "${rust_lock[@]}" --test it scenario
}
# The scenarios of failovers with Sentinel, or all that need no test mode on etcd: over_failovers sentinel|etcd PROGRAM...
over_failovers() {
    local run=("$work/venv/bin/python")
    [ "$1" != etcd ] || run+=("$here/etcd.py" 3 "${run[@]}")
    "${run[@]}" "$here/failovers.py" "$binary" "$@"
}
failovers_of_python() {
    over_failovers "$1" "$work/venv/bin/python" "${lock_tests[@]}" -o pythonpath= -k test_the_list_of_all_languages
}
failovers_of_node() { over_failovers "$1" "${node_tests[@]}" "$work/node/lock/test/conformance.test.js"; }
failovers_of_go() {
    ! command -v go >/dev/null || over_failovers "$1" "${go[@]}" test -count=1 -run TestListOfAllLanguages ./...
}
failovers_of_java() {
    ! command -v javac >/dev/null || over_failovers "$1" "$own_packages/java/lock/test.sh" "$work/java-$1"
}
failovers_of_rust() { over_failovers "$1" "${rust_lock[@]}" --test it scenario; }
# Succeeds if a tool is installed: has TOOL VARIABLE-THAT-REQUIRES-IT
has() {
    ! command -v "$1" >/dev/null || return 0
    [ -z "${!2:-}" ] || { echo "FAILED: $2 is set, and there is no $1" >&2; exit 1; }
    echo "helpers: there is no $1 here, so the one that needs it is not tested"
    return 1
}
# The scenarios that need no keylatch, with a server of Redis: on_redis PROGRAM [ARGUMENT...]
on_redis() {
    local port status=0 server
    port=$(free_port)
    redis-server --port "$port" --save '' --daemonize no >/dev/null & server=$!
    until redis-cli -p "$port" PING >/dev/null 2>&1; do kill -0 "$server" || return; sleep 0.05; done
    KEYLATCH_PLAIN=1 KEYLATCH_SERVERS=127.0.0.1:$port timeout 120 "$@" || status=$?
    kill "$server" && wait "$server"
    return "$status"
}
every_road() { EVERY_ROAD=1 in_test_mode "$@"; }
in_test_mode() { KEYLATCH_TEST_MODE=yes beside 1 "$@"; }

# Whole programs that keep lists, hashes, sets, sorted sets and streams: queues of jobs, sessions, rooms, limits, locks.
# Not available here: Redisson, which is Java's, so its locks are replayed; Resque, which is no package of Debian;
# asynq, for no module of Go can be had; Spring Data.
applications() {
    local part
    for part in jobs_of_python jobs_of_node jobs_of_others sessions_and_rooms limits_and_locks; do start "$part"; done
    finish
}
jobs_of_python() {
    py 1 jobs.py huey 'huey with priorities' 'taskiq over lists' 'taskiq over streams' APScheduler saq dramatiq \
        Celery rq-scheduler RQ
    py5 1 jobs.py arq
}
jobs_of_node() { js 1 jobs.mjs bee-queue Bull BullMQ; }
jobs_of_others() { beside 1 ruby "$here/jobs.rb"; }
sessions_and_rooms() {
    py 1 sessions_and_rooms.py flask-session 'channels_redis pub/sub layer' 'channels_redis layer' 'huey lock' \
        'pottery collections'
    py5 1 sessions_and_rooms.py 'walrus locks' 'walrus containers'
    js 1 sessions_and_rooms.mjs connect-redis rate-limiter-flexible 'socket.io redis adapter, ioredis' \
        'socket.io redis adapter, node-redis' 'redis-semaphore Semaphore and MultiSemaphore' bottleneck \
        'socket.io streams adapter, ioredis' 'socket.io streams adapter, node-redis'
}
limits_and_locks() {
    py 1 limits.py
    beside 1 php "$here/locks.php"
    py 1 locks.py 'Redisson lock, replayed' 'Redisson fair lock, replayed'
}

# The libraries of clients, one after the other.
clients() {
    py 1 smoke.py
    py 1 django_cache.py
    js 1 smoke.mjs
    beside 1 "$work/walk"
    beside 1 perl "$here/walk.pl"
    beside 1 ruby "$here/walk.rb"
    beside 1 php "$here/walk.php"
}

# Some of all with the server as a version of Redis. Left out is what needs a command that neither version has, nor
# redis-server 7.0: LOCK.* (contenders.py, locks_page.py, refused.py, the helpers), and CLIENT MAINT_NOTIFICATIONS (drain.*),
# which redis-py and node-redis ask for on connecting and do without.
profiles() {
    local profile part
    for profile in redis-7.2 redis-8.4; do
        for part in tools_and_clients some_applications; do start under "$profile" "$part"; done
    done
    finish
}
under() { KEYLATCH_PROFILE=$1 "${@:2}" 2>&1 | sed -u "s/^/$1: /"; }
tools_and_clients() {
    py 1 tools.py
    clients
    watched node "$work/node/failover.mjs" 'ioredis Sentinel'
    py 1 locks.py 'redis-py Lock' python-redis-lock
    py 5 locks.py redlock-py
    js 1 locks.mjs 'node-redlock, ioredis' 'redis-semaphore Mutex'
}
some_applications() {
    beside 1 php "$here/locks.php"
    py 1 jobs.py 'taskiq over streams' Celery RQ
    py5 1 jobs.py arq
    js 1 jobs.mjs BullMQ
    jobs_of_others
    py 1 sessions_and_rooms.py flask-session 'channels_redis layer' 'pottery collections'
    py5 1 sessions_and_rooms.py 'walrus containers'
    js 1 sessions_and_rooms.mjs connect-redis 'socket.io redis adapter, ioredis' 'socket.io streams adapter, node-redis'
}

# The server's own pages and files, and the clients of one server.
one_server() {
    py 1 tools.py
    clients
    # Every server takes its settings from the environment too.
    KEYLATCH_METRICS_PORT=$(free_port) py 1 metrics.py
    KEYLATCH_METRICS_PORT=$(free_port) py 1 page.py
    "$work/venv/bin/python" -m pytest -q -p no:cacheprovider --redis-exec="$binary" "$here/with_pytest_redis.py"
    rs 1
}
locks_on_one_server() {
    py 1 run_seed_lock.py
    py 1 contenders.py
    py 1 locks.py 'redis-py Lock' 'redis-py asyncio Lock' 'django-redis lock' python-redis-lock 'ShedLock, replayed' \
        'redislock, replayed' 'Laravel lock, replayed' 'Laravel funnel, replayed'
    js 1 locks.mjs 'node-redlock, ioredis' 'node-redlock, node-redis' 'redis-semaphore Mutex'
}
locks_on_five_servers() {
    local library
    for library in redlock-py 'pottery Redlock' 'redsync, replayed'; do py 5 locks.py "$library"; done
    for library in 'node-redlock, ioredis' 'node-redlock, node-redis' 'redis-semaphore RedlockMutex'; do
        js 5 locks.mjs "$library"
    done
    rs 5
}
other_primaries() {
    local client
    for client in 'redis-py Sentinel' 'redis-py asyncio Sentinel'; do
        watched "$work/venv/bin/python" "$here/failover.py" "$client"
    done
    watched node "$work/node/failover.mjs" 'ioredis Sentinel'
    "$work/venv/bin/python" "$here/drain.py" "$binary"
    node "$work/node/drain.mjs" "$binary"
}
locks_on_etcd() {
    clustered "$work/venv/bin/python" "$here/run_seed_lock.py" --sections 50
    clustered "$work/venv/bin/python" "$here/locks.py" 'redis-py Lock' 'redis-py asyncio Lock' 'django-redis lock' \
        redlock-py 'pottery Redlock'
    clustered "$work/venv/bin/python" "$here/contenders.py" --sections 20
}
cluster_clients() {
    export KEYLATCH_CLUSTER_ENABLED=yes
    py 1 clusters.py
    clustered "$work/venv/bin/python" "$here/clusters.py"
    js 1 clusters.mjs
}
pages() {
    py 1 locks_page.py "$work/node" "$here/rust/Cargo.toml" "$work/rust"
    KEYLATCH_TEST_MODE=yes py 1 refused.py "$work/node" "$here/rust/Cargo.toml" "$work/rust"
}

# Most of it waits for time, each part with servers of its own.
for part in one_server locks_on_{one_server,five_servers,etcd} other_primaries cluster_clients pages; do start "$part"; done
finish
helpers
start applications
start profiles
finish
echo 'clients: all well, and every server stopped with status 0'
