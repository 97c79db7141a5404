#!/usr/bin/env bash
# Runs the clients of other languages against a server: run.sh PATH-TO-KEYLATCH
#
# Everything that is installed or written goes to target/clients. Needs python3 with venv, node 20 and npm.
set -euo pipefail

binary=$(realpath "${1:?usage: run.sh PATH-TO-KEYLATCH}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(realpath -m "$here/../../target/clients")
mkdir -p "$work/node"

[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
# Node looks for packages beside the program, so the program goes where they are.
cp "$here/package.json" "$here/smoke.mjs" "$work/node/"
npm install --prefix "$work/node" --silent --no-audit --no-fund --no-package-lock
export PYTHONDONTWRITEBYTECODE=1

(cd "$work" && exec "$binary" --port 0 --bind 127.0.0.1 --save '') >"$work/server.log" 2>&1 &
server=$!
trap 'kill -KILL $server 2>/dev/null || true' EXIT

ready=
for _ in $(seq 100); do
    ready=$(grep -m 1 '^{"ready":true' "$work/server.log" || true)
    [ -n "$ready" ] && break
    kill -0 $server 2>/dev/null || break
    sleep 0.1
done
[ -n "$ready" ] || { echo 'FAILED: the server did not get ready'; cat "$work/server.log"; exit 1; } >&2
read -r host port < <(python3 -c 'import json, sys; at = json.loads(sys.argv[1]); print(at["host"], at["port"])' "$ready")

"$work/venv/bin/python" "$here/smoke.py" "$host" "$port"
node "$work/node/smoke.mjs" "$host" "$port"
"$work/venv/bin/python" "$here/run_seed_lock.py" "$host" "$port"

kill -TERM $server
status=0
wait $server || status=$?
trap - EXIT
[ $status -eq 0 ] || { echo "FAILED: after SIGTERM the server ended with status $status"; cat "$work/server.log"; exit 1; } >&2
echo 'clients: all well, and the server stopped with status 0'
