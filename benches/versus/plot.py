#!/usr/bin/env python3
"""Draws a plot that `cargo bench --bench versus` describes on standard input: plot.py FILE.svg

The lines are `title TEXT`, `x LABEL SCALE`, and for each panel `panel TITLE`, `y LABEL SCALE` and `point SERVER X Y`, with tabs
between the parts. Scales are linear, log BASE and percentile. Needs matplotlib.
"""

import math
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "versus", "font.size": 9})
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's palette, which the colour-blind can tell apart; a server has the same colour in every plot.
COLOURS = {"keylatch": "#0072b2", "earlier": "#56b4e9", "redis": "#d55e00", "null": "#787878", "valkey": "#009e73",
           "pogocache": "#cc79a7", "memcached": "#be9600"}
SHARES = [0.5, 0.9, 0.99, 0.999, 0.9999]


def read(lines):
    """Returns the title, the axis x, and the panels: title, axis y, and the points of each server."""
    title, x, panels = "", ("", "linear"), []
    for line in lines:
        kind, *parts = line.rstrip("\n").split("\t")
        if kind == "title":
            title = parts[0]
        elif kind == "x":
            x = tuple(parts)
        elif kind == "panel":
            panels.append([parts[0], ("", "linear"), {}])
        elif kind == "y":
            panels[-1][1] = tuple(parts)
        else:
            panels[-1][2].setdefault(parts[0], []).append((float(parts[1]), float(parts[2])))
    return title, x, panels


def scale(axis, name, described):
    """Sets up an axis."""
    label, kind = described
    getattr(axis, f"set_{name}label")(label)
    of = getattr(axis, f"set_{name}scale")
    if kind == "percentile":
        getattr(axis, f"set_{name}ticks")([place(share) for share in SHARES], [f"{share * 100:g} %" for share in SHARES])
    elif kind.startswith("log"):
        of("log", base=float(kind.split()[1]))
        getattr(axis, f"{name}axis").set_major_formatter(short)
    else:
        getattr(axis, f"set_{name}lim")(bottom=0) if name == "y" else axis.set_xlim(left=0)


def place(share):
    """Returns where a share stands on an axis on which 50 %, 90 %, 99 % and so on are about as far apart from each other."""
    return -math.log10(1 - share)


def short(value, _place):
    """Shows a round number as people write it: 1, 10, 1k, 1M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def draw(title, x, panels, path):
    rows = -(-len(panels) // 2)
    columns = min(len(panels), 2)
    figure, axes = plt.subplots(rows, columns, figsize=(5.6 * columns, 4 * rows + 0.7), layout="constrained", squeeze=False)
    for axis in list(axes.flat)[len(panels):]:
        axis.remove()
    handles = {}
    for axis, (name, y, servers) in zip(axes.flat, panels):
        for server, points in servers.items():
            marker = "."
            if x[1] == "percentile":
                marker, points = None, [(place(share), value) for share, value in points if share < 1]
            handles[server], = axis.plot(*zip(*points), color=COLOURS[server], marker=marker)
        axis.set_title(name)
        scale(axis, "x", x)
        scale(axis, "y", y)
        axis.grid(color="#e1e1e1")
    servers = [server for server in COLOURS if server in handles]
    figure.legend([handles[server] for server in servers], servers, loc="outside upper center", ncols=7, frameon=False, title=title)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(*read(sys.stdin), sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__)
