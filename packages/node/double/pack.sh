#!/usr/bin/env bash
# Packs both npm packages, the one for this platform with a binary that is built already: pack.sh BINARY FOLDER
set -euo pipefail

binary=$(realpath "${1:?usage: pack.sh BINARY FOLDER}")
mkdir -p "${2:?usage: pack.sh BINARY FOLDER}"
folder=$(realpath "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
staged=$(mktemp -d)
trap 'rm -r "$staged"' EXIT

# Of the packages with a binary there is one per architecture, which differ in its names alone.
arch=$(node -p process.arch)
cp -r "$here/keylatch" "$staged"
cp -r "$here/linux-x64" "$staged/linux-$arch"
[ "$arch" = x64 ] || sed -i "s/x86-64/$arch/; s/x64/$arch/" "$staged/linux-$arch/package.json"
cp "$here/README.md" "$staged/keylatch/"
for package in keylatch "linux-$arch"; do cp "$here"/../../../LICENSE-* "$staged/$package/"; done
install -D -m 755 "$binary" "$staged/linux-$arch/bin/keylatch"
for package in keylatch "linux-$arch"; do
    npm pack --silent --pack-destination "$folder" "$staged/$package"
done
