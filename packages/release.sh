#!/usr/bin/env bash
# Builds everything that a release of this platform consists of, and tries each part in a place of its own: release.sh OUT
#
#   keylatch-VERSION-ARCH-linux.tar.gz   the binary, linked statically, with its pages and licences
#   keylatch_VERSION-1_ARCH.deb          the Debian package
#   keylatch-VERSION-image.tar           a container image, for `docker load`
#   keylatch-*.whl, keylatch*.tgz        the binary for tests in Python and Node
#   keylatch_lock-*.whl, keylatch-lock-* helpers for locks: a wheel, an npm package, a jar, the sources for Go
#   *.crate                              the sources of both crates
#   *.cdx.json, *-LICENCES.txt           the bill of materials of the binary, and the licences
#   SHA256SUMS                           of all the others
#
# Needs what packages/check.sh needs, root, and a JDK for the jar (17). With KEYLATCH_QUICK=1 binaries are built in the development
# profile, for a check of this script.
set -euo pipefail

mkdir -p "${1:?usage: release.sh OUT}"
out=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(realpath "$here/..")
work=$root/target/release-check
cd "$root"
version=$(cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
print(next(package["version"] for package in json.load(sys.stdin)["packages"] if package["name"] == "keylatch"))')
name=keylatch-$version-$(uname -m)-linux
profile=dist
[ -z "${KEYLATCH_QUICK:-}" ] || profile=dev
rm -rf "$work" && mkdir -p "$work"
[ -z "$(ls -A "$out")" ] || { echo "$out is not empty" >&2; exit 2; }
server=
trap '[ -z "$server" ] || kill "$server"' EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }

# Starts a program that takes the server's options; sets `server` and `port`, which the server writes to a file that has another
# path outside of its root: serve FILE-INSIDE FILE-OUTSIDE COMMAND [ARGUMENT...]
serve() {
    "${@:3}" --port 0 --save '' --port-file "$1" >"$work/log" 2>&1 &
    server=$!
    until [ -s "$2" ]; do
        kill -0 "$server" || fail "${*:3} does not start: $(<"$work/log")"
        sleep 0.05
    done
    port=$(<"$2")
}
stop() {
    kill "$server"
    wait "$server"
    server=
}

echo "== binaries and the packages that have them, installed and tested by packages/check.sh"
cargo build --quiet --locked --profile "$profile" --bin keylatch
packages/check.sh "target/${profile/dev/debug}/keylatch"
cp target/packages/out/* "$out/"
static=target/packages/keylatch-static

echo "== what the binary is made of"
packages/dependencies.py "$version" "$out/keylatch-$version.cdx.json" "$out/keylatch-$version-LICENCES.txt"

echo "== the archive of the static binary"
mkdir -p "$work/$name"
install -m 755 "$static" "$work/$name/keylatch"
cp README.md CHANGELOG.md SECURITY.md LICENSE-* redis.conf.example "$work/$name/"
cp "$out/keylatch-$version-LICENCES.txt" "$work/$name/LICENCES-OF-PARTS.txt"
tar --create --gzip --owner 0 --group 0 --directory "$work" --file "$out/$name.tar.gz" "$name"
mkdir "$work/archive"
tar --extract --gzip --directory "$work/archive" --file "$out/$name.tar.gz"
serve "$work/port" "$work/port" "$work/archive/$name/keylatch" --dir "$work/archive"
reply=$("$work/archive/$name/keylatch" redis-cli -p "$port" SET lock:report worker-1 NX PX 30000)
[ "$reply" = OK ] || fail "the archive's server says $reply"
stop

echo "== the image"
packages/image.py "$static" "$version" "$out/keylatch-$version-image.tar"
mkdir -p "$work/image/root"
tar --extract --directory "$work/image" --file "$out/keylatch-$version-image.tar" layer.tar
tar --extract --directory "$work/image/root" --file "$work/image/layer.tar"
mkdir "$work/image/root/dev" # which the runtime of containers mounts
mknod --mode 666 "$work/image/root/dev/random" c 1 8
mknod --mode 666 "$work/image/root/dev/urandom" c 1 9
inside=(env -i PATH=/usr/local/bin KEYLATCH_PROTECTED_MODE=no "$(command -v chroot)" --userspec 999:999 "$work/image/root")
serve /tmp/port "$work/image/root/tmp/port" "${inside[@]}" /usr/local/bin/redis-server --dir /data
[ "$("${inside[@]}" /usr/local/bin/redis-cli -p "$port" PING)" = PONG ] || fail "the image's server does not answer"
"${inside[@]}" /usr/local/bin/keylatch --healthcheck --port "$port" || fail "the image's health check fails"
stop

echo "== the sources for Go"
tar --create --gzip --owner 0 --group 0 --directory packages/go --exclude '*_test.go' \
    --file "$out/keylatch-lock-go-$version.tar.gz" lock

echo "== the crates, built from the packed files"
# In a copy, because cargo changes its Cargo.lock: no registry has the interpreter, which is taken from its packed files.
mkdir "$work/source"
git ls-files -z | xargs -0 cp --parents --target-directory "$work/source"
(
    cd "$work/source"
    cargo package --quiet --locked -p keylatch-lua --target-dir "$work/crates"
    lua=$(echo "$work"/crates/package/keylatch-lua-*/)
    cargo package --quiet -p keylatch --target-dir "$work/crates" --config "patch.crates-io.keylatch-lua.path='$lua'"
)
cp "$work"/crates/package/*.crate "$out/"

echo "== sums"
(cd "$out" && sha256sum -- * >SHA256SUMS && sha256sum --quiet --check SHA256SUMS)
printf '\n%-52s %10s\n' artefact bytes
(cd "$out" && stat --printf '%n %s\n' -- *) | while read -r file size; do printf '%-52s %10d\n' "$file" "$size"; done
