# Builds keylatch and puts it, with the few libraries it needs and a shell, into an image of its own.
#
#     docker build -t keylatch .
#     docker run -p 6379:6379 -e KEYLATCH_REQUIREPASS=secret keylatch --maxclients 500
#
# Every setting may come as KEYLATCH_<NAME>, or from the file that KEYLATCH_<NAME>_FILE names. `redis-server` and
# `redis-cli` are links to the binary, so commands and health checks made for the image of Redis work.

ARG BUILD_IMAGE=rust:1.95.0-bookworm

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
COPY lua lua
# A layer with Lua and the dependencies alone, which is built again only when they change. The manifest also names tests and
# benches, which cargo wants to see and the image does not need.
RUN sed -i '/^\[\[\(bench\|example\|test\)\]\]/,/^$/d' Cargo.toml \
 && mkdir src && touch src/lib.rs && echo 'fn main() {}' > src/main.rs \
 && cargo build --profile dist --locked --bin keylatch
COPY src src
# The files are older than what was built without them.
RUN touch src/lib.rs src/main.rs && cargo build --profile dist --locked --bin keylatch
# The binary, the libraries that it loads at the paths where it looks for them, a user, and a directory of that user's. The
# shell, which needs none but those libraries, is for health checks such as `--health-cmd "redis-cli ping"`.
RUN mkdir -p /image/usr/local/bin /image/bin /image/etc /image/data /image/tmp \
 && cp target/dist/keylatch /image/usr/local/bin/ && cp -L /bin/sh /image/bin/sh \
 && ln -s keylatch /image/usr/local/bin/redis-server && ln -s keylatch /image/usr/local/bin/redis-cli \
 && ldd target/dist/keylatch | grep -o '/[^ ]*' | xargs -I{} cp -L --parents {} /image \
 && echo 'keylatch:x:999:999::/data:' > /image/etc/passwd \
 && echo 'keylatch:x:999:' > /image/etc/group \
 && chown 999:999 /image/data && chmod 1777 /image/tmp

FROM scratch
LABEL org.opencontainers.image.title="keylatch" \
      org.opencontainers.image.description="An in-memory key-value server that speaks RESP, the Redis protocol" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
COPY --from=build /image/ /
USER 999:999
# Snapshots and append-only files, as in the image of Redis.
VOLUME /data
WORKDIR /data
# The network of a container is private until a port is published, as in the image of Redis.
ENV PATH=/usr/local/bin KEYLATCH_PROTECTED_MODE=no
EXPOSE 6379
STOPSIGNAL SIGTERM
# Finds the port itself, whatever the arguments, the environment or a file say.
HEALTHCHECK --interval=10s --timeout=5s --start-period=2s CMD ["keylatch", "--healthcheck", "--running"]
ENTRYPOINT ["keylatch"]
