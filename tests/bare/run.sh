#!/usr/bin/env bash
# Runs the two commands of the README in a bare Debian root: bare/run.sh [FOLDER]
#
# The root is made by debootstrap and has ca-certificates, gcc, libc6-dev and make; the Rust toolchain of this machine and the
# certificates that it trusts are copied into it. It shows that the project needs nothing else. To be run as root, with port 6379
# free; takes as long as a release build and all tests, and 6 GB in FOLDER (a temporary one by default), which is removed at the end.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "bare/run.sh has to be run as root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "bare/run.sh needs debootstrap" >&2; exit 2; }
if [ -z "${IN_OWN_MOUNTS:-}" ]; then
    IN_OWN_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@" # what is mounted is gone with this process
fi

checkout=$(cd "$(dirname "$0")/../.." && pwd)
root=${1:-$(mktemp -d)}/root
server=
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    umount "$root/proc" 2>/dev/null || true
    umount --recursive "$root/dev" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap end EXIT

suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
debootstrap --variant=minbase --include=ca-certificates,gcc,libc6-dev,make "$suite" "$root" >/dev/null
cp /etc/resolv.conf /etc/hosts "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # with those that only this machine trusts
mount --rbind /dev "$root/dev" # with the pseudo terminals below it
mount -t proc proc "$root/proc"
mkdir "$root/toolchain" "$root/cargo"
cp -a "$(rustc --print sysroot)/." "$root/toolchain"
[ ! -f "${CARGO_HOME:-$HOME/.cargo}/config.toml" ] || cp "${CARGO_HOME:-$HOME/.cargo}/config.toml" "$root/cargo/"
git clone -q "$checkout" "$root/keylatch"

# Becomes a command of the README, run in the checkout within the root.
become() {
    exec chroot "$root" /usr/bin/env -i HOME=/root CARGO_HOME=/cargo PATH=/toolchain/bin:/usr/bin:/bin LANG=C.UTF-8 \
        sh -c "cd /keylatch && exec $*"
}

echo "== cargo run --release"
become cargo run --release &
server=$!
until (exec 3<>/dev/tcp/127.0.0.1/6379 && printf 'PING\r\n' >&3 && read -r reply <&3 && [ "$reply" = $'+PONG\r' ]) 2>/dev/null; do
    kill -0 "$server" || { echo "the first command has failed" >&2; exit 1; }
    sleep 1
done
kill "$server" # cargo has become the program
wait "$server" || true
server=
echo "== cargo test"
(become cargo test)
echo "both commands work"
