#!/usr/bin/env bash
# Packs or unpacks the corpus: corpus.sh pack|unpack [TARGET...], by default of all targets.
#
# The inputs of a target are one archive, fuzz/corpus/TARGET.tar.gz, which the tests replay. The fuzzer reads and adds to
# the folder fuzz/corpus/TARGET, which git ignores:
#
#     fuzz/corpus.sh unpack decoder && cargo +nightly fuzz run decoder
#     cargo +nightly fuzz cmin decoder && fuzz/corpus.sh pack decoder
#
# The same inputs make the same archive: they are sorted, and have no owner and no time. Needs GNU tar and gzip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/corpus"

usage() { echo 'usage: corpus.sh pack|unpack [TARGET...]' >&2; exit 2; }

pack() {
    [ -d "$1" ] || { echo "corpus.sh: no folder fuzz/corpus/$1" >&2; exit 1; }
    local tar=(tar --create --format=ustar --mode=644 --owner=0 --group=0 --numeric-owner --mtime=@0 --directory="$1")
    (cd "$1" && find . -maxdepth 1 -type f -printf '%P\0') | LC_ALL=C sort --zero-terminated \
        | "${tar[@]}" --null --verbatim-files-from --files-from=- | gzip --best --no-name >"$1.tar.gz.new"
    mv "$1.tar.gz.new" "$1.tar.gz"
}

# What the folder has besides the archive's inputs stays.
unpack() {
    mkdir -p "$1"
    tar --extract --gzip --file="$1.tar.gz" --directory="$1"
}

shopt -s nullglob
case ${1:-} in
    pack) all=(*/) ;;
    unpack) all=(*.tar.gz) ;;
    *) usage ;;
esac
all=("${all[@]%/}")
[ $# -gt 1 ] || set -- "$1" "${all[@]%.tar.gz}"
for target in "${@:2}"; do "$1" "$target"; done
