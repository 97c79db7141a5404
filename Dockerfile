# Builds keylatch and puts it, with the few libraries it needs and nothing else, into an image of its own.
#
#     docker build -t keylatch .
#     docker run -p 6379:6379 -e KEYLATCH_REQUIREPASS=secret keylatch --maxclients 500
#
# Every setting may come as KEYLATCH_<NAME>, or from the file that KEYLATCH_<NAME>_FILE names.

ARG BUILD_IMAGE=rust:1-bookworm

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY lua lua
# The manifest names benches and tests, which cargo wants to see and the server does not need.
COPY benches benches
COPY tests tests
RUN cargo build --release --locked --bin keylatch
# The binary, the libraries that it loads at the paths where it looks for them, a user, and a directory of that user's.
RUN mkdir -p /image/usr/local/bin /image/etc /image/data /image/tmp \
 && cp target/release/keylatch /image/usr/local/bin/ \
 && ldd target/release/keylatch | grep -o '/[^ ]*' | xargs -I{} cp -L --parents {} /image \
 && echo 'keylatch:x:999:999::/data:' > /image/etc/passwd \
 && echo 'keylatch:x:999:' > /image/etc/group \
 && chown 999:999 /image/data && chmod 1777 /image/tmp

FROM scratch
COPY --from=build /image/ /
USER 999:999
WORKDIR /data
# The network of a container is private until a port is published, as in the image of Redis.
ENV PATH=/usr/local/bin KEYLATCH_PROTECTED_MODE=no
EXPOSE 6379
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=2s CMD ["keylatch", "--healthcheck"]
ENTRYPOINT ["keylatch"]
