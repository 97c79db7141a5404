#!/usr/bin/env bash
# Runs the clients and lock libraries of other languages against a server: run.sh PATH-TO-KEYLATCH
#
# Everything that is written goes to target/clients. Needs python3 (3.11) with venv, node 20, npm, cargo, a
# C compiler and perl; what else is needed is installed by apt-get.
set -euo pipefail

binary=$(realpath "${1:?usage: run.sh PATH-TO-KEYLATCH}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(realpath -m "$here/../../target/clients")
mkdir -p "$work/node"

packages=(libhiredis-dev libredis-perl php-cli php-nrk-predis php-redis prometheus-redis-exporter redis-tools)
packages+=(ruby-redis webdis)
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
for part in others python node rust; do
    (set -e; "install_$part") & running+=($!)
done
for each in "${running[@]}"; do wait "$each"; done
export PYTHONDONTWRITEBYTECODE=1

# Starts a number of new servers and runs a program with them: beside COUNT PROGRAM [ARGUMENT...]
beside() { "$work/venv/bin/python" "$here/servers.py" "$binary" "$@"; }
py() { beside "$1" "$work/venv/bin/python" "$here/$2" "${@:3}"; }
js() { beside "$1" node "$work/node/$2" "${@:3}"; }
rs() { beside "$1" "$work/rust/debug/keylatch-client-checks"; }

py 1 tools.py
py 1 smoke.py
py 1 django_cache.py
js 1 smoke.mjs
beside 1 "$work/walk"
beside 1 perl "$here/walk.pl"
beside 1 ruby "$here/walk.rb"
beside 1 php "$here/walk.php"
"$work/venv/bin/python" -m pytest -q -p no:cacheprovider --redis-exec="$binary" "$here/with_pytest_redis.py"
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
