#!/usr/bin/env bash
# Builds the package and its tests, and runs them: test.sh FOLDER-FOR-CLASSES
# KEYLATCH_SERVERS=host:port names the server, which has to be in test mode and is emptied. Needs a JDK, 17 or later.
set -euo pipefail

classes=$(realpath -m "${1:?usage: test.sh FOLDER-FOR-CLASSES}")
cd "$(dirname "${BASH_SOURCE[0]}")"
rm -rf "$classes" && mkdir -p "$classes/lock" "$classes/tests"
javac --release 17 -Xlint:all -Werror -d "$classes/lock" src/keylatch/lock/*.java
javac --release 17 -Xlint:all -Werror -cp "$classes/lock" -d "$classes/tests" test/keylatch/lock/tests/*.java
java -cp "$classes/lock:$classes/tests" keylatch.lock.tests.Main ../../lock-conformance.json
