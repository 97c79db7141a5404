#!/usr/bin/env bash
# Builds all packages, installs those that have the binary, each into an environment of its own, and runs their tests, and
# those of Go's where `go` is; runs the installation commands of the pages (installed.py): check.sh KEYLATCH [RUNS]
#
# The wheel is built by maturin, with the binary linked statically; the same goes into the npm package. The binary that
# is named goes into the Debian package. Everything is written to target/packages. Needs python3 (3.11) with venv,
# node 20, npm and cargo; for the Debian package root, dpkg-dev and a kernel with overlay mounts.
# KEYLATCH_QUICK=1 builds the static binary in the development profile, not optimised, for a check that publishes nothing.
# KEYLATCH_MUSL=1 also builds with musl, which takes as long as everything else together: without optimisation across
# crates, since only that it builds and runs is checked. Needs the target x86_64-unknown-linux-musl and musl-tools.
# With RUNS, the tests of the wheel and of the npm packages are then run that often, both at the same time, to find what
# fails now and then: pytest with three workers, node:test, vitest and jest. Tests that start further sessions of pytest
# or Django are left out, and the types. The output of a run that fails stays in target/packages.
set -euo pipefail

binary=$(realpath "${1:?usage: check.sh KEYLATCH [RUNS]}")
runs=${2:-0}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(realpath "$here/..")
work=$root/target/packages
rm -rf "$work/out" && mkdir -p "$work/out"
export PYTHONDONTWRITEBYTECODE=1
unset KEYLATCH_REQUIRE_REDIS KEYLATCH_BINARY KEYLATCH_URL # the server, or the tests, would follow them

fail() { echo "FAILED: $*" >&2; exit 1; }
pip() { "$work/$1/bin/pip" --quiet --disable-pip-version-check "${@:2}"; }
# `cargo rustc` leaves what it has built under the name of the ordinary binary, which others need as it was.
cp "$binary" "$work/keylatch-dynamic"
binary=$work/keylatch-dynamic

build_wheel() {
    [ -x "$work/tools/bin/python" ] || python3 -m venv "$work/tools"
    pip tools install maturin==1.16.0
    cd "$here/python/double"
    local profile=dist options=()
    [ -z "${KEYLATCH_QUICK:-}" ] || profile=dev options=(--config profile.dev.package.keylatch.opt-level=0)
    "$work/tools/bin/maturin" build --quiet --profile "$profile" "${options[@]}" --locked --out "$work/out" -- \
        -C target-feature=+crt-static
    cp "${CARGO_TARGET_DIR:-$root/target}/${profile/dev/debug}/keylatch" "$work/keylatch-static"
}
# Fails unless a binary is static, and serves.
check_static() {
    local linked server port
    linked=$(ldd "$1" 2>&1 || true)
    [[ $linked =~ 'statically linked'|'not a dynamic executable' ]] || fail "$1 is not static: $linked"
    timeout 60 "$1" --port 0 --bind 127.0.0.1 --dir "$work" --port-file "$work/port" >"$work/static.log" &
    server=$!
    until [ -s "$work/port" ]; do
        kill -0 "$server" || fail "$1 does not start"
        sleep 0.05
    done
    port=$(<"$work/port")
    [ "$("$1" redis-cli -h localhost -p "$port" PING)" = PONG ] || fail 'no PONG'
    [ "$("$1" redis-cli -p "$port" EVAL 'return cjson.encode({1})' 0)" = '[1]' ] || fail 'no scripts'
    kill "$server"
    wait "$server"
}
build_musl() {
    local target=x86_64-unknown-linux-musl
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
        cargo build --quiet --locked --release --bin keylatch --target "$target" --target-dir "$work/musl"
    check_static "$work/musl/$target/release/keylatch"
}
test_python() {
    rm -rf "$work/python" && python3 -m venv "$work/python"
    pip python install -r "$here/python/double/requirements-test.txt" "$work"/out/*.whl
    run_pytest
}
run_pytest() {
    local double=$here/python/double
    "$work/python/bin/python" -m pytest -q -p no:cacheprovider --rootdir "$double" "$double/tests" "$@"
}
again_python() {
    local tests=$here/python/double/tests
    run_pytest -n 3 --ignore "$tests/test_plugin.py" --ignore "$tests/test_django.py"
}
test_node() {
    "$here/node/double/pack.sh" "$work/keylatch-static" "$work/out" >/dev/null
    rm -rf "$work/node" && cp -r "$here/node/double/test" "$work/node"
    (
        cd "$work/node"
        npm install --silent --no-audit --no-fund --no-package-lock
        npm install --silent --no-audit --no-fund --no-package-lock --no-save "$work"/out/keylatch-*.tgz
        cp -r "$here/node/lock" node_modules/keylatch-lock # which is explored
        node examples.mjs "$root"
        npm test --silent
    )
}
again_node() { (cd "$work/node" && npm run --silent again); }
# Runs the tests of a package several times, and says how often they passed.
repeat() {
    local run passed=0 log
    for ((run = 1; run <= runs; run++)); do
        log=$work/$1-$run.log
        if "again_$1" >"$log" 2>&1; then passed=$((passed + 1)) && rm "$log"; else echo "FAILED: $log" >&2; fi
    done
    echo "$1: $passed of $runs runs passed"
    [ "$passed" = "$runs" ]
}
# Waits for processes; fails if one has failed.
join() {
    local each status=0
    for each in "$@"; do wait "$each" || status=1; done
    return "$status"
}
# The helpers for locks, whose tests are among those of the clients (tests/clients/run.sh).
build_locks() {
    pip tools wheel --no-deps --wheel-dir "$work/out" "$here/python/lock"
    npm pack --silent --pack-destination "$work/out" "$here/node/lock" >/dev/null
    ! command -v javac >/dev/null || "$here/java/lock/pack.sh" "$work/out"
}
# Go's package needs no building; its examples need redigo and redisc, of Debian's packages
# golang-github-gomodule-redigo-dev and golang-github-mna-redisc-dev, the second of which is no module.
test_go() {
    command -v go >/dev/null || { echo 'there is no go here, so the package of Go is not tested'; return 0; }
    local double=$here/go/double sources=/usr/share/gocode/src/github.com
    local redigo=$sources/gomodule/redigo redisc=$sources/mna/redisc
    export GOCACHE=$work/go GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-mod=mod KEYLATCH_BINARY=$binary
    [ -z "$(gofmt -l "$double")" ] || fail "gofmt -l $double"
    rm -rf "$work/go-double" && cp -r "$double" "$work/go-double"
    cd "$work/go-double"
    go vet .
    go test -race -count=1 .
    [ -d "$redigo" ] && [ -d "$redisc" ] ||
        { echo 'redigo or redisc is not here, so the examples of the package of Go are not tested'; return 0; }
    rm -rf "$work/redisc" && cp -r "$redisc" "$work/redisc"
    (cd "$work/redisc" && go mod init github.com/mna/redisc 2>/dev/null)
    cd example
    go mod edit -replace="github.com/gomodule/redigo=$redigo" -replace="github.com/mna/redisc=$work/redisc"
    go vet .
    go test -count=1 .
}
test_debian() {
    command -v dpkg-shlibdeps >/dev/null || apt-get install -y -qq --no-install-recommends dpkg-dev >/dev/null
    command -v adduser >/dev/null || apt-get install -y -qq --no-install-recommends adduser >/dev/null
    "$here/debian/build.py" "$binary" "$work/out" >/dev/null
    "$here/debian/test.sh" "$work"/out/keylatch_*.deb
}

(build_wheel)
check_static "$work/keylatch-static"
[ -z "${KEYLATCH_MUSL:-}" ] || build_musl
# At the same time: most of it waits for the network or for a server.
running=()
for part in python node go debian; do
    (set -e; "test_$part") & running+=($!)
done
join "${running[@]}"
build_locks
"$here/installed.py" "$work/out" "$work/installed"
echo 'packages: wheel, npm packages, Debian package and static binary are well'
if [ "$runs" -gt 0 ]; then
    running=()
    for part in python node; do
        repeat "$part" & running+=($!)
    done
    join "${running[@]}"
fi
