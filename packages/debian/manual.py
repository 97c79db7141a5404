"""Makes the man pages and the completion of bash from the binary's own help: `keylatch --help-all`, and
`keylatch lock --help`, `copy --help` and `redis-cli --help`.

So the binary carries none of them, and none can be out of date.
"""

import re
import subprocess

OPTION = re.compile(r"^    --(\S+) (.*?) +([A-Z].*)$")  # the value has no capitals, and the text begins with one
FOOT = r"""
.SH ENVIRONMENT
Every setting can come from the environment:
.B KEYLATCH_<NAME>,
or
.B KEYLATCH_<NAME>_FILE
for one that is kept in a file. Options override the environment, which overrides a configuration file.
.SH FILES
.TP
.I /etc/keylatch.conf
The settings of the service, each with its description.
.TP
.I /usr/share/doc/keylatch
Commands, locks, differences to Redis, and how to get data in and out.
.SH EXIT STATUS
0 after an orderly end, on SIGTERM for instance, and when
.B \-\-healthcheck
has found the server healthy; otherwise 1.
.SH SEE ALSO
.BR keylatch-lock (1),
.BR redis-cli (1)
"""
SUBCOMMANDS = ("copy", "lock", "redis-cli")
LOCK_OPTION = re.compile(r"^ +((?:-\S, )?--\S+)(?: <(\S+)>)? {2,}(\S.*)$")
LOCK_FOOT = r"""
.SH EXAMPLES
.TP
.B keylatch lock backup \-\- pg_dump \-f dump.sql shop
One dump at a time, on whichever machine; a second one waits for the first.
.TP
.B keylatch lock nightly \-nq \-E 0 \-\-at\-least 10m \-\- /usr/local/bin/nightly
In the crontab of every machine: one runs it, the others do nothing, also if their clocks are minutes apart.
.TP
.B keylatch lock deploy \-\-wait 5m \-\-meta 'release 7' \-h locks.example \-\- ./deploy
Others are shown who deploys what; after five minutes of waiting the exit status is 75.
.TP
.B keylatch lock \-\-watch deploy
Shows who holds the lock, and who waits for it.
.SH SEE ALSO
.BR flock (1),
.BR keylatch (1),
.I /usr/share/doc/keylatch/docs/LOCKS.md
"""


def read(binary):
    """Returns the parts of the help: the line of description, usage, examples, and options by section."""
    text = subprocess.check_output([binary, "--help-all"], text=True)
    head, settings = text.split("\nSettings, ", 1)
    description, usage, examples = re.fullmatch(r"(.*?)\n\nUsage: (.*?)\n\nExamples:\n(.*)", head, re.DOTALL).groups()
    sections = {}
    for line in settings.splitlines()[1:]:
        if re.fullmatch(r"  [A-Z].*:", line):
            options = sections.setdefault(line.strip(" :"), [])
        elif line.startswith("    --"):
            found = OPTION.match(line)
            if not found:
                raise ValueError(f"no option: {line!r}")
            options.append(found.groups())
    if sum(map(len, sections.values())) < 100:
        raise ValueError("the help has another form than this expects")
    return description, usage, examples, sections


def escaped(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.MULTILINE)


def man_page(binary, version):
    """Returns the page keylatch(1)."""
    description, usage, examples, sections = read(binary)
    name, what = description.split(": ", 1)
    page = [f'.TH KEYLATCH 1 "" "keylatch {version}" "User Commands"', ".SH NAME", escaped(f"{name} - {what}")]
    page += [".SH SYNOPSIS", ".nf"]
    page += [escaped(re.sub(r" {2,}.*", "", line.strip())) for line in usage.splitlines()]
    page += [".fi", ".SH OPTIONS", "As options, or as lines of a configuration file without the dashes."]
    for section, options in sections.items():
        page.append(f".SS {escaped(section)}")
        for name, value, text in options:
            page += [".TP", f".BI {escaped('--' + name)} \" {escaped(value)}\"", escaped(text)]
    page.append(".SH EXAMPLES")
    for line in examples.rstrip().splitlines():
        command, text = re.fullmatch(r"  (.*?) {2,}(.*)", line).groups()
        page += [".TP", f".B {escaped(command)}", escaped(text)]
    return "\n".join(page) + FOOT


def read_lock(binary):
    """Returns the parts of the help of `keylatch lock`: the line of description, usage, options, text, exit statuses."""
    text = subprocess.check_output([binary, "lock", "--help"], text=True)
    parts = r"(.*?)\n\nUsage: (.*?)\n\nArguments:\n.*?\n\nOptions:\n(.*?)\n\n(.*)\n\nExit status: (.*)"
    what, usage, options, body, statuses = re.fullmatch(parts, text, re.DOTALL).groups()
    found = [LOCK_OPTION.match(line) for line in options.splitlines()]
    if len(found) < 20 or None in found:
        raise ValueError("the help of lock has another form than this expects")
    return what, usage, [option.groups() for option in found], body, statuses


def lock_page(binary, version):
    """Returns the page keylatch-lock(1)."""
    what, usage, options, body, statuses = read_lock(binary)
    begun = lambda text, change: change(text[0]) + text[1:]
    page = [f'.TH KEYLATCH\\-LOCK 1 "" "keylatch {version}" "User Commands"', ".SH NAME"]
    page += [escaped(f"keylatch-lock - {begun(what, str.lower).rstrip('.')}"), ".SH SYNOPSIS", ".nf"]
    page += [escaped(line.strip()) for line in usage.splitlines()]
    page += [".fi", ".SH DESCRIPTION", "\n.PP\n".join(map(escaped, body.split("\n\n"))), ".SH OPTIONS"]
    for name, value, text in options:
        page += [".TP", f'.BI "{escaped(name)}" " {value}"' if value else f".B {escaped(name)}", escaped(text)]
    page.append(".SH EXIT STATUS")
    for line in begun(statuses, str.upper).splitlines():
        found = re.fullmatch(r"  (\d+)   (.*)", line)
        start = [".TP", f".B {found[1]}"] if found else [".PP"] * line.startswith("--")
        page += [*start, escaped(found[2] if found else line)]
    return "\n".join(page) + LOCK_FOOT


def options_of(binary, subcommand):
    """Returns the options of a subcommand that begin with two dashes, as the lines of its help on options name them."""
    text = subprocess.check_output([binary, subcommand, "--help"], text=True)
    lines = [line for line in text.splitlines() if re.match(r" +-", line)]
    names = sorted({name for line in lines for name in re.findall(r"(?<!\S)--[a-z][\w-]*", line)})
    if len(names) < 8:
        raise ValueError(f"the help of {subcommand} has another form than this expects")
    return names


def completion(binary):
    """Returns the completion for bash: names of settings, values of those that take one of a few words, and the
    options of subcommands."""
    options = [option for section in read(binary)[3].values() for option in section]
    names = [f"--{name}" for name, _, _ in options]
    names += ["--healthcheck", "--running", "--help", "--help-all", "--version"]
    cases = {}
    for name, value, _ in options:
        if re.fullmatch(r"[\w-]+(\|[\w-]+)+", value):
            cases.setdefault(f"COMPREPLY=($(compgen -W '{value.replace('|', ' ')}' -- \"$word\"))", []).append(name)
        elif value.startswith("<dir"):
            cases.setdefault('COMPREPLY=($(compgen -d -- "$word"))', []).append(name)
    words = "\n".join(f"        {'|'.join(f'--{name}' for name in each)}) {then} ;;" for then, each in cases.items())
    own = "\n".join(f"        {name}) options='{' '.join(options_of(binary, name))}' ;;" for name in SUBCOMMANDS)
    return f"""# Completion of keylatch's options for bash.
_keylatch() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} options=
    case ${{COMP_WORDS[1]}} in
{own}
    esac
    if [[ $options && $COMP_CWORD -gt 1 ]]; then
        # Behind -- is the command that keylatch lock runs.
        [[ $word != -* || " ${{COMP_WORDS[*]:2:COMP_CWORD-2}} " = *' -- '* ]] ||
            COMPREPLY=($(compgen -W "$options" -- "$word"))
        return
    fi
    case ${{COMP_WORDS[COMP_CWORD - 1]}} in
{words}
        *) [[ $word != -* ]] || COMPREPLY=($(compgen -W '{" ".join(names)}' -- "$word")) ;;
    esac
}}
complete -o default -F _keylatch keylatch
"""
