#!/usr/bin/env bash
# Installs etcd for the tests into a folder, without touching the system: FOLDER/etcd, of a version that `engine etcd` can use,
# and FOLDER/old/etcd, of one that it must refuse.
#
#     tests/etcd/install.sh FOLDER
#
# The packages are Debian's. The release of this machine has the old version, the next one the new: it is read from the same
# package sources, with the name of that release, by an apt of its own.
set -euo pipefail

folder=$(realpath -m "${1:?a folder}")
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
mkdir -p "$folder"

# Downloads and unpacks the package etcd-server of a release: unpack RELEASE FOLDER
unpack() {
    local root=$2/apt lists
    mkdir -p "$root"/{etc/apt/sources.list.d,etc/apt/preferences.d,var/lib/apt/lists/partial,var/cache/apt/archives/partial,var/lib/dpkg}
    touch "$root/var/lib/dpkg/status" "$root/etc/apt/sources.list"
    for lists in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        # Sources of other releases, or of others than Debian, have no such package.
        ! grep -qs "$release" "$lists" || sed "s/\b$release\b/$1/g; s/\b$release-/$1-/g" "$lists" \
            >"$root/etc/apt/sources.list.d/${lists##*/}"
    done
    local options=(-o "Dir::Etc=$root/etc/apt" -o "Dir::State=$root/var/lib/apt" -o "Dir::Cache=$root/var/cache/apt"
        -o "Dir::State::status=$root/var/lib/dpkg/status" -o Dir::Etc::trusted=/etc/apt/trusted.gpg
        -o Dir::Etc::trustedparts=/etc/apt/trusted.gpg.d -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update -qq
    (cd "$root" && apt-get "${options[@]}" download -qq etcd-server)
    dpkg-deb -x "$root"/etcd-server_*.deb "$root/unpacked"
    cp "$root/unpacked/usr/bin/etcd" "$2/etcd"
    rm -rf "$root"
    "$2/etcd" --version | sed -n 1p
}

[ -x "$folder/etcd" ] || unpack "${KEYLATCH_ETCD_RELEASE:-trixie}" "$folder"
[ -x "$folder/old/etcd" ] || { mkdir -p "$folder/old" && unpack bookworm "$folder/old"; }
