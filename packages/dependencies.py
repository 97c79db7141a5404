#!/usr/bin/env python3
"""Writes the bill of materials of the binary as CycloneDX (1.5, JSON), and the licences of its parts.

    dependencies.py VERSION SBOM.cdx.json LICENCES.txt

Both name the crates that are linked into the binary with its default features, without those that only build it. Needs cargo,
whose registry has the crates' sources, and python3 (3.11).
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
LICENCE_FILES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*", "COPYRIGHT*", "jemalloc/COPYING", "lua-5.1*/COPYRIGHT")
# To cargo it only builds another package, and yet its C code is linked.
LINKED = "lua-src"


def linked():
    """Returns the packages that are linked into the binary, sorted, each with its dependencies."""
    host = subprocess.check_output(["rustc", "-vV"], text=True).split("host: ")[1].split()[0]
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    is_macro = lambda package: any("proc-macro" in target["kind"] for target in package["targets"])
    is_linked = lambda by, package, kinds: (
        package["name"] == LINKED or None in kinds and by["name"] != LINKED and not is_macro(package)
    )
    needed = {}
    todo = [metadata["resolve"]["root"]]
    while todo:
        current = todo.pop()
        if current in needed:
            continue
        needed[current] = [
            dep["pkg"]
            for dep in nodes[current]["deps"]
            if is_linked(packages[current], packages[dep["pkg"]], {kind["kind"] for kind in dep["dep_kinds"]})
        ]
        todo += needed[current]
    order = sorted(needed, key=lambda each: (packages[each]["name"], packages[each]["version"]))
    return [packages[each] for each in order], {each: needed[each] for each in order}


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package):
    licence = package["license"]
    return {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
        **({"licenses": [{"expression": licence.replace("/", " OR ")}]} if licence else {}),
    }


def bill(version, packages, needed):
    by_id = {package["id"]: package for package in packages}
    program = next(package for package in packages if package["name"] == "keylatch")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(program) | {"type": "application", "version": version}},
        "components": [component(package) for package in packages if package is not program],
        "dependencies": [
            {"ref": reference(by_id[each]), "dependsOn": sorted(reference(by_id[dep]) for dep in deps)}
            for each, deps in needed.items()
        ],
    }


def licences(packages):
    """Returns the licences, each text once, under the names of the packages that it belongs to."""
    texts = {}
    for package in packages:
        folder = pathlib.Path(package["manifest_path"]).parent
        names = sorted({path for pattern in LICENCE_FILES for path in folder.glob(pattern) if path.is_file()})
        if not names and not package["license"]:
            sys.exit(f"{package['name']} {package['version']} says nothing of its licence")
        for path in names:
            texts.setdefault(path.read_text(errors="replace").strip(), []).append(f"{package['name']} {package['version']}")
    parts = [f"{package['name']} {package['version']}: {package['license']}" for package in packages]
    blocks = [f"{', '.join(dict.fromkeys(of))}\n\n{text}" for text, of in texts.items()]
    return f"\n\n{'-' * 78}\n".join(["keylatch consists of these packages:\n\n" + "\n".join(parts), *blocks]) + "\n"


def main(version, bill_path, licences_path):
    packages, needed = linked()
    pathlib.Path(bill_path).write_text(json.dumps(bill(version, packages, needed), indent=1) + "\n")
    pathlib.Path(licences_path).write_text(licences(packages))


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) == 4 else sys.exit(__doc__)
