#!/usr/bin/env bash
# Runs the clients and lock libraries of other languages against a server: run.sh PATH-TO-KEYLATCH
#
# Everything that is written goes to target/clients. Needs python3 (3.11) with venv, node 20, npm and
# cargo.
set -euo pipefail

binary=$(realpath "${1:?usage: run.sh PATH-TO-KEYLATCH}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(realpath -m "$here/../../target/clients")
mkdir -p "$work/node"

install_python() {
    [ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
}
install_node() {
    # Node looks for packages beside the program, so the programs go where they are.
    cp "$here"/{package.json,*.mjs} "$work/node/"
    npm install --prefix "$work/node" --silent --no-audit --no-fund --no-package-lock
}
install_rust() {
    cargo build --quiet --locked --manifest-path "$here/rust/Cargo.toml" --target-dir "$work/rust"
}
# At the same time: most of it waits for the network.
running=()
for part in python node rust; do
    (set -e; "install_$part") & running+=($!)
done
for each in "${running[@]}"; do wait "$each"; done
export PYTHONDONTWRITEBYTECODE=1

# Starts so many servers afresh and runs a program beside them: beside COUNT PROGRAM [ARGUMENT...]
beside() { "$work/venv/bin/python" "$here/servers.py" "$binary" "$@"; }
py() { beside "$1" "$work/venv/bin/python" "$here/$2" "${@:3}"; }
js() { beside "$1" node "$work/node/$2" "${@:3}"; }
rs() { beside "$1" "$work/rust/debug/keylatch-client-checks"; }

py 1 smoke.py
py 1 django_cache.py
js 1 smoke.mjs
py 1 run_seed_lock.py
py 1 locks.py 'redis-py Lock' 'redis-py asyncio Lock' 'django-redis lock' python-redis-lock 'ShedLock, replayed' \
    'redislock, replayed' 'Laravel lock, replayed' 'Laravel funnel, replayed'
js 1 locks.mjs 'node-redlock, ioredis' 'node-redlock, node-redis' 'redis-semaphore Mutex'
rs 1
for library in redlock-py 'pottery Redlock' 'redsync, replayed'; do py 5 locks.py "$library"; done
for library in 'node-redlock, ioredis' 'node-redlock, node-redis' 'redis-semaphore RedlockMutex'; do
    js 5 locks.mjs "$library"
done
rs 5
echo 'clients: all well, and every server stopped with status 0'
