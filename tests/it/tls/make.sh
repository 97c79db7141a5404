#!/bin/sh
# Makes the certificates in the folders `authority` and `stranger` beside this file anew: an authority each, and the
# certificates of a server and of a client that it has signed, all valid for a hundred years. Needs openssl.
set -e
cd "$(dirname "$0")"
for folder in authority stranger; do
    mkdir -p "$folder" && cd "$folder"
    new="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500"
    openssl req -x509 $new -keyout ca.key -out ca.crt -subj "/CN=$folder"
    for name in server client; do
        openssl req -x509 $new -CA ca.crt -CAkey ca.key -keyout "$name.key" -out "$name.crt" -subj "/CN=$name" \
            -addext basicConstraints=CA:FALSE -addext subjectAltName=DNS:localhost
    done
    rm ca.key
    cd ..
done
