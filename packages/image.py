#!/usr/bin/env python3
"""Writes a container image with a static binary as `docker load` and `podman load` read it, without Docker.

    image.py BINARY VERSION FILE.tar

The image is that of the Dockerfile without a shell and the C library: the binary, links named redis-server and redis-cli, a user,
and the directory of the data. The same input gives the same file. Needs python3 (3.11).
"""

import hashlib
import io
import json
import pathlib
import platform
import sys
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
USER = 999


def entry(name, kind=tarfile.REGTYPE, mode=0o644, owner=0, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid, info.linkname = kind, mode, owner, owner, target
    return info


def add(archive, name, content, **options):
    info = entry(name, **options)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def layer(binary):
    """Returns the file system of the image as an archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder in ["etc", "usr", "usr/local", "usr/local/bin"]:
            archive.addfile(entry(folder, tarfile.DIRTYPE, 0o755))
        archive.addfile(entry("tmp", tarfile.DIRTYPE, 0o1777))
        archive.addfile(entry("data", tarfile.DIRTYPE, 0o755, USER))
        add(archive, "usr/local/bin/keylatch", binary, mode=0o755)
        for link in ["redis-server", "redis-cli"]:
            archive.addfile(entry(f"usr/local/bin/{link}", tarfile.SYMTYPE, 0o777, target="keylatch"))
        add(archive, "etc/passwd", f"keylatch:x:{USER}:{USER}::/data:\n".encode())
        add(archive, "etc/group", f"keylatch:x:{USER}:\n".encode())
    return out.getvalue()


def settings(version, layer_digest):
    """Returns the configuration of the image, equal to the Dockerfile's."""
    check = {"Test": ["CMD", "keylatch", "--healthcheck", "--running"]}
    second = 1_000_000_000
    return {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "WorkingDir": "/data",
            "Volumes": {"/data": {}},
            "Env": ["PATH=/usr/local/bin", "KEYLATCH_PROTECTED_MODE=no"],
            "ExposedPorts": {"6379/tcp": {}},
            "StopSignal": "SIGTERM",
            "Entrypoint": ["keylatch"],
            "Healthcheck": check | {"Interval": 10 * second, "Timeout": 5 * second, "StartPeriod": 2 * second},
            "Labels": {
                "org.opencontainers.image.title": "keylatch",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
    }


def main(binary, version, target):
    files = layer(pathlib.Path(binary).read_bytes())
    config = json.dumps(settings(version, hashlib.sha256(files).hexdigest())).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [f"keylatch:{version}"], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        add(archive, config_name, config)
        add(archive, "layer.tar", files)
        add(archive, "manifest.json", json.dumps(manifest).encode())


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) == 4 else sys.exit(__doc__)
