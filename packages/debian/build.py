#!/usr/bin/env python3
"""Builds the Debian package with dpkg-deb, from [package.metadata.deb] in Cargo.toml as `cargo deb` would.

    build.py BINARY FOLDER

cargo-deb exists only as source, and building it takes longer than building keylatch. What this knows of the metadata is
what is used there: assets, conf-files, maintainer-scripts, depends with $auto. Needs python3 (3.11) and dpkg-dev.
"""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

import manual

ROOT = pathlib.Path(__file__).parents[2]
GENERATED = {
    "target/package/keylatch.conf": lambda binary, version: configuration().encode(),
    "target/package/keylatch.1.gz": lambda *of: gzip.compress(manual.man_page(*of).encode(), mtime=0),
    "target/package/keylatch-lock.1.gz": lambda *of: gzip.compress(manual.lock_page(*of).encode(), mtime=0),
    "target/package/keylatch.bash": lambda binary, version: manual.completion(binary).encode(),
}
# Of redis.conf.example: a line, and what it is in /etc/keylatch.conf.
CHANGES = {
    "# Example configuration of keylatch: every setting with its default.": (
        "# Configuration of keylatch: every setting, with its default but for bind and\n# dir."
    ),
    "#     keylatch /path/to/this/file --port 7000": "#     keylatch /etc/keylatch.conf --port 7000",
    "# This file is generated from the table of settings; do not edit it by hand.": (
        "# Restart the service after a change: systemctl restart keylatch"
    ),
    "bind * -::*": "bind 127.0.0.1 -::1",
    "dir .": "dir /var/lib/keylatch",
}


def configuration():
    """Returns the text of /etc/keylatch.conf."""
    lines = (ROOT / "redis.conf.example").read_text().splitlines()
    missing = CHANGES.keys() - set(lines)
    if missing:
        sys.exit(f"redis.conf.example has no line {missing.pop()!r}")
    return "".join(f"{CHANGES.get(line, line)}\n" for line in lines)


def page(source, shipped):
    """Returns a page without pictures, without comments, and without links to files that are not in the package."""
    text = re.sub(r"^<!-- .*? -->\n|<!-- .*? -->", "", (ROOT / source).read_text(), flags=re.MULTILINE)
    text = re.sub(r"^(<picture>.*?</picture>|!\[.*?\]\(.*?\))\n\n", "", text, flags=re.MULTILINE | re.DOTALL)
    local = lambda target: os.path.normpath(os.path.join(os.path.dirname(source), target))
    is_there = lambda target: re.match(r"#|https?:", target) or local(target.split("#")[0]) in shipped
    return re.sub(r"\[([^][]+)\]\(([^)]+)\)", lambda link: link[0] if is_there(link[2]) else link[1], text)


def libraries(binary, folder):
    """Returns the dependencies of the binary, from dpkg-shlibdeps; none for a static one."""
    (folder / "debian").mkdir()
    (folder / "debian" / "control").write_text("Source: keylatch\n\nPackage: keylatch\nArchitecture: any\n")
    command = ["dpkg-shlibdeps", "-O", f"-e{binary}"]
    found = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return re.sub(r"^shlibs:Depends=", "", found.strip())


def control(package, depends, size):
    metadata = package["metadata"]["deb"]
    architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    needed = (depends if each == "$auto" else each for each in metadata["depends"].split(", "))
    # A package that is built once more gets the next revision; there was none yet.
    fields = {
        "Package": package["name"],
        "Version": f"{package['version']}-1",
        "Architecture": architecture,
        "Maintainer": metadata["maintainer"],
        "Installed-Size": str(size // 1024),
        "Depends": ", ".join(filter(None, needed)),
        "Section": metadata["section"],
        "Priority": metadata["priority"],
        "Description": "in-memory key-value server that speaks the Redis protocol",
    }
    lines = metadata["extended-description"].splitlines()
    return "".join(f"{name}: {value}\n" for name, value in fields.items()) + "".join(f" {line}\n" for line in lines)


def build(binary, destination, folder):
    package = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]
    metadata = package["metadata"]["deb"]
    tree = folder / "tree"
    shipped = {source for source, _, _ in metadata["assets"] if source.endswith(".md")}
    for source, target, mode in metadata["assets"]:
        to = tree / target
        to = to / pathlib.Path(source).name if target.endswith("/") else to
        to.parent.mkdir(parents=True, exist_ok=True)
        if source in GENERATED:
            to.write_bytes(GENERATED[source](binary, package["version"]))
        elif source.endswith(".md"):
            to.write_text(page(source, shipped))
        else:
            shutil.copyfile(binary if source.startswith("target/") else ROOT / source, to)
        to.chmod(int(mode, 8))
    scripts = tree / "DEBIAN"
    scripts.mkdir()
    for name in ("postinst", "prerm", "postrm"):
        shutil.copy(ROOT / metadata["maintainer-scripts"] / name, scripts / name)
        (scripts / name).chmod(0o755)
    (scripts / "conffiles").write_text("".join(f"{name}\n" for name in metadata["conf-files"]))
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    (scripts / "control").write_text(control(package, libraries(binary, folder), size))
    for path in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
        path.chmod(0o755)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, destination], check=True)


def main():
    binary, destination = (pathlib.Path(argument).absolute() for argument in sys.argv[1:])
    destination.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        build(binary, destination, pathlib.Path(folder))


if __name__ == "__main__":
    main()
