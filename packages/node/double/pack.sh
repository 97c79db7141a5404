#!/usr/bin/env bash
# Packs both npm packages, the one for this platform with a binary that is built already: pack.sh BINARY FOLDER
set -euo pipefail

binary=$(realpath "${1:?usage: pack.sh BINARY FOLDER}")
mkdir -p "${2:?usage: pack.sh BINARY FOLDER}"
folder=$(realpath "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
staged=$(mktemp -d)
trap 'rm -r "$staged"' EXIT

cp -r "$here/keylatch" "$here/linux-x64" "$staged"
cp "$here/README.md" "$staged/keylatch/"
for package in keylatch linux-x64; do cp "$here"/../../../LICENSE-* "$staged/$package/"; done
install -D -m 755 "$binary" "$staged/linux-x64/bin/keylatch"
for package in keylatch linux-x64; do
    npm pack --silent --pack-destination "$folder" "$staged/$package"
done
