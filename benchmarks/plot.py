#!/usr/bin/env python3
"""Draws JSON files of lockstep_bench, or of nccl-tests, as one SVG: size against bus bandwidth, a line for each.

    plot.py a.json b.json -o plot.svg [--in-place] [--title TEXT] [--labels A B]

Both axes are logarithmic. Results without a bus bandwidth above 0, and without bytes, have no point there and are
left out. Of several results of one size in a file that agree in type, operator and root, the mean is drawn; results
that differ in these are lines of their own.
"""

import argparse
import json
import math
import os
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 900, 560
LEFT, RIGHT, TOP, BOTTOM = 80, 260, 50, 60
# Okabe and Ito's colours, which remain distinct to the colour-blind; then with dashes.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
DASHES = ["", "7 4", "2 3"]


def read_lines(path, label, placement):
    """The lines of one file: a list of (label, {size: bandwidth})."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    if "results" not in document:
        raise ValueError("it has no results")
    groups = {}
    for result in document["results"]:
        key = (result["type"], result["redop"], result["root"].strip())
        bandwidth = result[placement]["bus_bw"]
        if isinstance(bandwidth, str) or bandwidth <= 0 or result["size"] <= 0:
            continue
        groups.setdefault(key, {}).setdefault(result["size"], []).append(bandwidth)
    return [
        (label if len(groups) == 1 else f"{label} {' '.join(key)}",
         {size: sum(values) / len(values) for size, values in sorted(sizes.items())})
        for key, sizes in groups.items()
    ]


def size_text(size):
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):g}{unit}"
    return f"{size:g}"


def powers(base, low, high):
    first = math.floor(math.log(low, base) + 1e-9)
    last = max(math.ceil(math.log(high, base) - 1e-9), first + 1)
    return [base**exponent for exponent in range(first, last + 1)]


def draw(lines, title):
    sizes = [size for _, points in lines for size in points]
    bandwidths = [bandwidth for _, points in lines for bandwidth in points.values()]
    x_ticks, y_ticks = powers(2, min(sizes), max(sizes)), powers(10, min(bandwidths), max(bandwidths))
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def along(value, ticks):
        return math.log(value / ticks[0]) / math.log(ticks[-1] / ticks[0])

    def x(size):
        return LEFT + inner_width * along(size, x_ticks)

    def y(bandwidth):
        return TOP + inner_height * (1 - along(bandwidth, y_ticks))

    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="{TOP - 20}" font-size="16">{escape(title)}</text>',
    ]
    every = math.ceil(len(x_ticks) / 10)
    for i, size in enumerate(x_ticks):
        svg.append(f'<line x1="{x(size):.1f}" y1="{TOP}" x2="{x(size):.1f}" y2="{HEIGHT - BOTTOM}" stroke="#eee"/>')
        if i % every == 0:
            svg.append(f'<text x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
                       f'{size_text(size)}</text>')
    for bandwidth in y_ticks:
        svg.append(f'<line x1="{LEFT}" y1="{y(bandwidth):.1f}" x2="{WIDTH - RIGHT}" y2="{y(bandwidth):.1f}" '
                   'stroke="#ccc"/>')
        svg.append(f'<text x="{LEFT - 8}" y="{y(bandwidth) + 4:.1f}" text-anchor="end">{bandwidth:g}</text>')
    svg.append(f'<text x="{LEFT + inner_width / 2}" y="{HEIGHT - 16}" text-anchor="middle">size (bytes)</text>')
    svg.append(f'<text transform="translate(22 {TOP + inner_height / 2}) rotate(-90)" text-anchor="middle">'
               'bus bandwidth (GB/s)</text>')
    for i, (label, points) in enumerate(lines):
        style = f'stroke="{COLOURS[i % len(COLOURS)]}"'
        dash = DASHES[i // len(COLOURS) % len(DASHES)]
        if dash:
            style += f' stroke-dasharray="{dash}"'
        path = " ".join(f"{x(size):.1f},{y(bandwidth):.1f}" for size, bandwidth in points.items())
        svg.append(f'<polyline points="{path}" fill="none" stroke-width="2" {style}><title>{escape(label)}</title>'
                   '</polyline>')
        for size, bandwidth in points.items():
            svg.append(f'<circle cx="{x(size):.1f}" cy="{y(bandwidth):.1f}" r="3" '
                       f'fill="{COLOURS[i % len(COLOURS)]}"><title>{escape(label)}: {size_text(size)}, '
                       f'{bandwidth:.4g} GB/s</title></circle>')
        row = TOP + 10 + 18 * i
        svg.append(f'<line x1="{WIDTH - RIGHT + 16}" y1="{row}" x2="{WIDTH - RIGHT + 40}" y2="{row}" '
                   f'stroke-width="2" {style}/>')
        svg.append(f'<text x="{WIDTH - RIGHT + 46}" y="{row + 4}">{escape(label)}</text>')
    svg.append("</svg>")
    return "\n".join(svg) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Draws size against bus bandwidth of JSON reports as one SVG.")
    parser.add_argument("reports", nargs="+", metavar="JSON")
    parser.add_argument("-o", "--output", required=True, metavar="SVG")
    parser.add_argument("--in-place", action="store_true", help="of the in-place results [out of place]")
    parser.add_argument("--title", default="Bus bandwidth")
    parser.add_argument("--labels", nargs="+", metavar="TEXT", help="one for each report [its file's name]")
    arguments = parser.parse_args()
    labels = arguments.labels or [os.path.splitext(os.path.basename(path))[0] for path in arguments.reports]
    if len(labels) != len(arguments.reports):
        parser.error(f"{len(labels)} labels for {len(arguments.reports)} reports")

    lines = []
    for path, label in zip(arguments.reports, labels):
        try:
            lines += read_lines(path, label, "in_place" if arguments.in_place else "out_of_place")
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"plot.py: cannot read {path} as a report: {error}")
    if not lines:
        sys.exit("plot.py: no result has a bus bandwidth above 0; all_reduce on one rank has none")
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(draw(lines, arguments.title))


if __name__ == "__main__":
    main()
