#!/usr/bin/env bash
# Installs, starts, upgrades and purges the Debian package, as root: test.sh PACKAGE
#
# This happens in a copy-on-write view of the machine, of which nothing remains. No systemd runs there, so what is
# checked of the unit is what systemd-analyze finds, if there is one.
set -euo pipefail

package=$(realpath "${1:?usage: test.sh PACKAGE}")
if [ "${2:-}" != inside ]; then
    # The script enters itself again: in a mount namespace of its own, then below the overlay.
    exec unshare --mount "$0" "$package" inside
fi
if [ "${3:-}" != view ]; then
    view=$(mktemp -d)
    mount -t tmpfs tmpfs "$view"
    mkdir "$view"/{upper,work,root}
    mount -t overlay overlay -o "lowerdir=/,upperdir=$view/upper,workdir=$view/work" "$view/root"
    for folder in proc dev sys; do mount --rbind "/$folder" "$view/root/$folder"; done
    cp "$package" "$view/root/tmp/keylatch.deb"
    cp "$0" "$view/root/tmp/keylatch-test.sh"
    status=0
    chroot "$view/root" bash /tmp/keylatch-test.sh /tmp/keylatch.deb inside view || status=$?
    umount -l "$view"
    rmdir "$view"
    exit "$status"
fi

fail() { echo "FAILED: $*" >&2; exit 1; }
is() { [ "$1" = "$2" ] || fail "$1 is not $2"; }

# Pages and manual, out of the package itself, since dpkg in images for containers installs neither.
files=$(mktemp -d)
dpkg-deb --extract "$package" "$files"
while read -r page target; do
    [ -e "$(dirname "$page")/$target" ] || fail "$page links to $target, which is not in the package"
done < <(grep -oP '\]\(\K[^)#]+(?=[)#])' -r "$files/usr/share/doc/keylatch" | grep -v ':https*:' | tr ':' ' ')
for expected in 'keylatch \-\-maxmemory\-policy' 'keylatch-lock \-\-conflict\-exit\-code'; do
    manual=$files/usr/share/man/man1/${expected%% *}.1.gz
    [ "$(zcat "$manual" | grep -cF -e "${expected#* }")" != 0 ] || fail "no manual ${expected%% *}"
    ! command -v groff >/dev/null || is "$(zcat "$manual" | groff -man -Tutf8 -ww -z 2>&1)" ''
done
completed() { COMP_WORDS=(keylatch "$@") COMP_CWORD=$# COMPREPLY=() && _keylatch && echo "${COMPREPLY[*]}"; }
source "$files/usr/share/bash-completion/completions/keylatch"
is "$(completed --daemo)" --daemonize
is "$(completed --appendonly y)" yes
is "$(completed lock --conf)" --conflict-exit-code
is "$(completed lock job -- make --conf)" ''
is "$(completed copy --d)" --dry-run
is "$(completed redis-cli --pip)" '--pipe --pipe-timeout'
rm -r "$files"

export DEBIAN_FRONTEND=noninteractive
dpkg --install "$package" >/dev/null
is "$(stat -c '%U:%G %a' /etc/keylatch.conf)" 'root:keylatch 640'
is "$(stat -c '%U:%G %a' /var/lib/keylatch)" 'keylatch:keylatch 750'
is "$(getent passwd keylatch | cut -d: -f6,7)" /var/lib/keylatch:/usr/sbin/nologin
is "$(dpkg-query --showformat '${Conffiles}' --show keylatch | awk '{print $1}' | xargs)" /etc/keylatch.conf
[ -L /etc/systemd/system/multi-user.target.wants/keylatch.service ] || fail 'the unit is not enabled'
if command -v systemd-analyze >/dev/null; then
    systemd-analyze verify --man=no keylatch.service
fi

# As the unit starts it, but on a free port. A file that the user may not read would end it.
port_of() { grep -o '"port":[0-9]*' "$1" | cut -d: -f2; }
setpriv --reuid keylatch --regid keylatch --init-groups \
    keylatch /etc/keylatch.conf --supervised systemd --daemonize no --port 0 >/tmp/keylatch.log 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in $(seq 300); do ! grep -q '"ready":true' /tmp/keylatch.log || break; sleep 0.1; done
port=$(port_of /tmp/keylatch.log)
keylatch --healthcheck -p "$port" || fail 'it does not answer'
is "$(keylatch redis-cli -p "$port" EVAL 'return redis.call("INCR", KEYS[1])' 1 counter)" 1
is "$(keylatch redis-cli -p "$port" CONFIG GET dir | tail -1)" /var/lib/keylatch
is "$(ps -o user= -p "$server")" keylatch
kill "$server"
wait "$server" || fail "it ended with status $?"

echo 'maxclients 77' >>/etc/keylatch.conf
dpkg --install "$package" >/dev/null
grep -q 'maxclients 77' /etc/keylatch.conf || fail 'an upgrade has overwritten the settings'
dpkg --remove keylatch >/dev/null 2>&1
[ -e /etc/keylatch.conf ] && [ -d /var/lib/keylatch ] || fail 'a removal has taken settings or data'
dpkg --purge keylatch >/dev/null 2>&1
enabled=/etc/systemd/system/multi-user.target.wants/keylatch.service
for path in /etc/keylatch.conf /var/lib/keylatch /usr/bin/keylatch "$enabled"; do
    [ ! -e "$path" ] && [ ! -L "$path" ] || fail "a purge has left $path"
done
echo 'Debian package: installed, started, upgraded, purged'
