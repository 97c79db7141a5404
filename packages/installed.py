#!/usr/bin/env python3
"""Runs the installation commands of the pages, and verifies that the packages are installed then: installed.py OUT WORK

OUT has the packages (check.sh builds them). Each line is run as the page has it, in a folder below WORK that has nothing
but copies of them, beside which there is the checkout under the name keylatch. A page without such a line fails. Lines
that need `go` or `javac` are left out where these are not installed, and that is said.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
GO = 'package main\nimport "keylatch/lock"\nfunc main() { println(lock.ErrNotAcquired.Error()) }\n'
GO_TEST = ('package work\nimport ("testing"; "keylatch/double")\n'
           "func TestItStarts(t *testing.T) { double.New(t) }\n")
RUST = {"Cargo.toml": '[package]\nname = "work"\nedition = "2024"\n[workspace]\n', "src/main.rs": "fn main() {}\n"}
JAVA = "class Work { keylatch.lock.Options options = new keylatch.lock.Options().shared(); }\n"
# How a line begins, the tool that it needs, what is in the folder before, and what works afterwards.
PIP_DOUBLE = ("pip install ./keylatch-", "pip", {}, 'python -c "import keylatch; keylatch.instance().close()"')
PIP_LOCK = ("pip install ./keylatch_lock-", "pip", {}, 'python -c "import keylatch_lock"')
NPM_DOUBLE = ("npm install --save-dev ./keylatch-", "npm", {}, "node --input-type=module -e "
              "\"import { instance } from 'keylatch'; (await instance()).close()\"")
NPM_LOCK = ("npm install ./keylatch-lock-", "npm", {}, "node --input-type=module -e \"import 'keylatch-lock'\"")
GO_LOCK = ("go mod edit -require=keylatch/lock", "go", {"go.mod": "module work\n\ngo 1.19\n", "main.go": GO}, "go run .")
GO_DOUBLE = ("go mod edit -require=keylatch/double", "go", {"go.mod": "module work\n\ngo 1.19\n", "work_test.go": GO_TEST},
             "KEYLATCH_BINARY=$OUT/../keylatch-static go test .")
RUST_LOCK = ("cargo add --path ../keylatch/packages/rust/lock", "cargo", RUST, "cargo tree --quiet")
JAVA_LOCK = ("javac -cp keylatch-lock-", "javac", {"Work.java": JAVA}, "test -e Work.class")
PAGES = {
    "docs/TESTING.md": [PIP_DOUBLE, NPM_DOUBLE],
    "docs/MIGRATION.md": [PIP_DOUBLE, NPM_DOUBLE],
    "docs/LOCKS.md": [PIP_LOCK, NPM_LOCK, GO_LOCK, JAVA_LOCK, RUST_LOCK],
    "packages/python/double/README.md": [PIP_DOUBLE],
    "packages/python/lock/README.md": [PIP_LOCK],
    "packages/node/double/README.md": [NPM_DOUBLE],
    "packages/node/lock/README.md": [NPM_LOCK],
    "packages/go/double/README.md": [GO_DOUBLE],
    "packages/go/lock/README.md": [GO_LOCK],
    "packages/java/lock/README.md": [JAVA_LOCK],
    "packages/rust/lock/README.md": [RUST_LOCK],
}


def lines(page, begin):
    """Returns the lines of a page with a certain beginning: of code blocks, without their comments, and quoted ones."""
    text = (ROOT / page).read_text()
    found = re.findall(rf"^({re.escape(begin)}.*?)(?:  +#.*)?$|`({re.escape(begin)}[^`\n]*)`", text, flags=re.MULTILINE)
    if not found:
        sys.exit(f"{page} has no line that begins with {begin!r}")
    return [first or second for first, second in found]


def run(line, files, proof, out, work):
    shutil.rmtree(work, ignore_errors=True)
    folder = work / "program"
    folder.mkdir(parents=True)
    (work / "keylatch").symlink_to(ROOT)
    for package in out.glob("keylatch*"):
        shutil.copy(package, folder)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    if line.startswith("pip"):
        subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
    path = f"{work / 'venv/bin'}:{os.environ['PATH']}"
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1", "npm_config_audit": "false", "npm_config_loglevel": "error"}
    own = {"OUT": str(out), "GOCACHE": str(work / "go"), "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    for command in (line, proof):
        done = subprocess.run(["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path, **quiet, **own},
                              timeout=300, stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"FAILED: {command}\nof the line that installs a package: {line}")


def main():
    out, work = (pathlib.Path(argument).absolute() for argument in sys.argv[1:])
    wanted = {}
    for page, kinds in PAGES.items():
        for begin, tool, files, proof in kinds:
            wanted.update({line: (tool, files, proof) for line in lines(page, begin)})
    for line, (tool, files, proof) in wanted.items():
        if shutil.which(tool):
            run(line, files, proof, out, work)
        else:
            print(f"there is no {tool} here, so this line of a page is not tried: {line}")


if __name__ == "__main__":
    main()
