"""Keeps the figures of the comparison, and writes the tables and plots of them."""

import csv
import math
import os
import platform

COLOURS = {  # of Okabe and Ito's palette, which the colour-blind can tell apart
    "LOCK.*": "#0072b2",
    "redis-py's Lock, redis-server": "#d55e00",
    "SETNX + GETSET": "#787878",
    "SET NX PX + Lua": "#009e73",
    "Redlock over five": "#cc79a7",
    "etcd's lock": "#be9600",
}


class Figures:
    """The figures by section, row and unit; those of sections that are not measured again stay."""

    def __init__(self, path, versions, load):
        self.path, self.values, self.of_section = path, {}, {}
        self.about = {kind: each for kind, each in versions.items() if each}
        beside = f", beside other load (load average {load:.1f})" if load > 0.5 else ""
        self.source = ", ".join([*self.about.values(), f"{os.cpu_count()} cores", platform.machine()]) + beside
        if path.exists():
            with open(path, newline="") as file:
                for line in csv.DictReader(file, delimiter="\t"):
                    self.values[line["section"], line["row"], line["unit"]] = line["value"]
                    self.of_section[line["section"]] = line["source"]

    def begin(self, section):
        """Forgets what was measured of a section before."""
        self.values = {key: value for key, value in self.values.items() if key[0] != section}
        self.of_section[section] = self.source

    def add(self, section, row, unit, value):
        text = value if isinstance(value, str) else shown(value)
        self.values[section, row, unit] = text
        print(f"{section}: {row}: {unit}: {text}", flush=True)

    def get(self, section, row, unit):
        return self.values.get((section, row, unit), "")

    def rows(self, section):
        return list(dict.fromkeys(row for of, row, _ in self.values if of == section))

    def write(self):
        with open(self.path, "w", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(["section", "row", "unit", "value", "source"])
            for (section, row, unit), value in self.values.items():
                writer.writerow([section, row, unit, value, self.of_section[section]])


def shown(value):
    """Writes a number with three digits that count."""
    if math.isnan(value):
        return "-"
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(max(value, 0.001))))}f}"


def table(head, lines):
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines]) + "\n"


def contention(figures):
    units = ["requests per lock", "server CPU us per lock", "locks/s", "hand-over p50 ms", "hand-over p99 ms",
             "wait p50 ms", "longest wait ms", "locks of the least and of the most served"]
    lines = []
    for row in figures.rows("contention"):
        if row != "PING":
            pattern, clients = row.rsplit(", ", 1)
            values = [figures.get("contention", row, unit) for unit in units]
            if clients == "1":
                values[3:5] = ["", ""]  # nobody to hand over to
            lines.append([pattern, clients, *values])
    head = ["pattern", "clients", "requests per lock", "server CPU per lock, us", "locks/s", "hand-over p50, ms",
            "p99, ms", "wait p50, ms", "longest, ms", "locks of one client"]
    return table(head, lines)


def failures(figures):
    units = ["killed: next holder after s", "frozen: next holder after s", "frozen: late write",
             "reply lost: holds after s"]
    head = ["pattern", "holder killed: next after, s", "frozen: next after, s", "its late write",
            "reply lost: holds after, s"]
    return table(head, [[row, *(figures.get("failures", row, unit) for unit in units)]
                        for row in figures.rows("failures")])


def crowd(figures):
    units = {"PING p50 us": "round trip of PING p50, us", "hand-over p50 us": "hand-over p50, us",
             "p50 / PING": "hand-over p50 / PING",
             "hand-over p99 us": "hand-over p99, us",
             "requests per lock": "requests per lock", "requests/s while it is held": "requests/s while it is held",
             "server CPU us per lock": "server CPU per lock, us", "hand-overs": "hand-overs measured"}
    rows = figures.rows("crowd")
    lines = [[name, *(figures.get("crowd", row, unit) for row in rows)] for unit, name in units.items()]
    return table(["10,000 clients", *rows], lines)


def memory(figures):
    rows = figures.rows("memory")
    return table(["10,000 clients wait", *rows], [["bytes each", *(figures.get("memory", row, "bytes per waiter") for row in rows)]])


def tables(figures, page):
    """Writes the tables between their marks in the page."""
    text = page.read_text()
    for name, made in (("contention", contention), ("failures", failures), ("crowd", crowd), ("memory", memory)):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        source = f"\nMeasured with {figures.of_section.get(name, '')}.\n"
        head, rest = text.split(begin)
        text = head + begin + made(figures) + source + end + rest.split(end)[1]
    page.write_text(text)


def plots(figures, path):
    """Draws requests, hand-over and waits over the number of clients."""
    if not figures.rows("contention"):
        return
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "locks", "font.size": 9})
    import matplotlib.pyplot as plt

    panels = [("requests per lock", "requests per acquired lock"), ("hand-over p50 ms", "hand-over, median, ms"),
              ("hand-over p99 ms", "hand-over, p99, ms"), ("longest wait ms", "longest wait, ms")]
    figure, axes = plt.subplots(2, 2, figsize=(11.2, 8), layout="constrained")
    for axis, (unit, title) in zip(axes.flat, panels):
        for pattern, colour in COLOURS.items():
            points = [(int(row.rsplit(", ", 1)[1]), number(figures.get("contention", row, unit)))
                      for row in figures.rows("contention") if row.startswith(pattern + ", ")]
            points = [(x, y) for x, y in points if y is not None and not (unit.startswith("hand-over") and x == 1)]
            axis.plot(*zip(*points) if points else ([], []), color=colour, marker="o", label=pattern)
        axis.set(title=title, xscale="log", yscale="log", xlabel="clients that contend")
        axis.set_xticks([1, 10, 100], ["1", "10", "100"])
        axis.grid(color="#e1e1e1")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=6, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def number(text):
    try:
        return float(text)
    except ValueError:
        return None
