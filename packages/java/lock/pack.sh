#!/usr/bin/env bash
# Packs the classes: pack.sh FOLDER. Needs a JDK, 17 or later.
set -euo pipefail

mkdir -p "${1:?usage: pack.sh FOLDER}"
folder=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
classes=$(mktemp -d)
trap 'rm -r "$classes"' EXIT
javac --release 17 -Xlint:all -Werror -d "$classes" src/keylatch/lock/*.java
jar --create --file "$folder/keylatch-lock-0.2.0.jar" -C "$classes" keylatch
