"""Makes the man page and the completion of bash from what the binary says of itself: `keylatch --help-all`.

So the binary carries neither, and neither can be out of date.
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
.BR redis-cli (1)
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


def completion(binary):
    """Returns the completion for bash: names of settings, and values of those that take one of a few words."""
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
    return f"""# Completion of keylatch's options for bash.
_keylatch() {{
    local word=${{COMP_WORDS[COMP_CWORD]}}
    case ${{COMP_WORDS[COMP_CWORD - 1]}} in
{words}
        *) [[ $word != -* ]] || COMPREPLY=($(compgen -W '{" ".join(names)}' -- "$word")) ;;
    esac
}}
complete -o default -F _keylatch keylatch
"""
