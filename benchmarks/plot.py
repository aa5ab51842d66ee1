#!/usr/bin/env python3
"""Draws JSON files of lockstep_bench, or of nccl-tests, as one SVG: size against bus bandwidth, a line for each.

    plot.py a.json b.json -o plot.svg [--in-place] [--title TEXT] [--labels A B]

Both axes are logarithmic. Results without a finite bus bandwidth above 0, and without bytes, have no point there and
are left out. Of several results of one size in a file that agree in type, operator and root, the mean is drawn; results
that differ in these are lines of their own. Many lines are drawn in several panels with the same axes and one legend.
The line below the title says what all lines have in common.
"""

import argparse
import collections
import itertools
import json
import math
import os
import sys
import textwrap
import unicodedata
from xml.sax.saxutils import escape

MARGIN, LEFT, BOTTOM, GAP = 20, 60, 40, 24
PANEL_SIZES = {1: (820, 440), 2: (390, 280), 3: (300, 230)}  # by panels in a row
MOST_LINES = 14  # of a panel; with more they are hard to tell apart
FONT_SIZE, TITLE_SIZE, ROW = 12, 16, 18
# Okabe and Ito's colours, which remain distinct to the colour-blind; then with dashes.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
DASHES = ["", "7 4", "2 3", "9 3 2 3", "14 3"]

TINY = 1e-300  # what is below has no logarithm worth drawing

# What tells lines apart, in the order of a label.
Key = collections.namedtuple("Key", "file ranks type redop root")
Line = collections.namedtuple("Line", "key label points")  # points: {size: bandwidth}


def plain(text):
    """A text that XML can hold, on one line."""
    return "".join(c if c.isprintable() else " " for c in str(text)).strip()


def ranks_text(config):
    ranks = max(len(config.get("devices", [])), config.get("nthreads", 0) * config.get("ngpus", 0))
    return f"{ranks} rank{'s' if ranks > 1 else ''}" if ranks else ""


def read_lines(path, label, placement):
    """The lines of one file, and the names of what was measured."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    if "results" not in document:
        raise ValueError("it has no results")
    ranks = ranks_text(document.get("config", {}))
    groups, names = {}, set()
    for result in document["results"]:
        names.add(plain(result.get("experiment_name", "")))
        key = Key(label, ranks, plain(result["type"]), plain(result["redop"]), plain(result["root"]))
        bandwidth, size = result[placement]["bus_bw"], float(result["size"])
        if isinstance(bandwidth, str) or not TINY < bandwidth < 1 / TINY or not 0 < size < 1 / TINY:
            continue
        groups.setdefault(key, {}).setdefault(size, []).append(bandwidth)
    return [
        Line(key, label if len(groups) == 1 else " ".join((label, key.type, key.redop, key.root)),
             {size: sum(values) / len(values) for size, values in sorted(sizes.items())})
        for key, sizes in groups.items()
    ], names


def distinct_labels(paths):
    """The files' names, with as much of their folders as tells them apart."""
    parts = [os.path.splitext(os.path.abspath(path))[0].split(os.sep) for path in paths]
    labels = []
    for i, part in enumerate(parts):
        others = [other for j, other in enumerate(parts) if j != i]
        count = next((n for n in range(1, len(part)) if all(other[-n:] != part[-n:] for other in others)), 1)
        labels.append(os.sep.join(part[-count:]))
    return labels


def number_equal(labels):
    """Labels that are equal get numbers."""
    seen = collections.Counter()
    numbered = []
    for label in map(plain, labels):
        seen[label] += 1
        numbered.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return numbered


def varying(lines):
    return [name for name in Key._fields if len({getattr(line.key, name) for line in lines}) > 1]


def label_fields(lines, panel_fields):
    """Those of the legend: root and operator only where lines would else have one label."""
    fields = [name for name in varying(lines) if name not in panel_fields]
    for name in ("root", "redop"):
        fewer = [field for field in fields if field != name]
        if len({text_of(line.key, [*panel_fields, *fewer]) for line in lines}) == len(lines):
            fields = fewer
    return fields


def text_of(key, fields):
    return " ".join(filter(None, (getattr(key, name) for name in fields)))


def choose_panels(lines):
    """The fields whose values have panels of their own: as few panels as have few lines each, and no style twice."""
    def num_lines(fields):
        return collections.Counter(tuple(getattr(line.key, name) for name in fields) for line in lines)

    def num_labels(choice):
        return len({text_of(line.key, [name for name in fields if name not in choice]) for line in lines})

    fields = varying(lines)
    choices = [choice for n in range(len(fields) + 1) for choice in itertools.combinations(fields, n)]
    legible = [choice for choice in choices if max(num_lines(choice).values()) <= MOST_LINES
               and num_labels(choice) <= len(COLOURS) * len(DASHES)]
    return min(legible, key=lambda choice: len(num_lines(choice)), default=choices[-1])


def size_text(size):
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):g}{unit}"
    return f"{size:g}"


def powers_of_2(low, high):
    first = math.floor(math.log2(low) + 1e-9)
    last = max(math.ceil(math.log2(high) - 1e-9), first + 1)
    return [2.0**exponent for exponent in range(first, last + 1)]


def bandwidth_ticks(low, high):
    """1, 2, 5, 10, ... around the values; where these are many, powers of 10."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    for steps in ((1, 2, 5), (1,)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        first = max(i for i, tick in enumerate(ticks) if tick <= low)
        last = min(i for i, tick in enumerate(ticks) if tick >= high and i > first)
        if last - first <= 12:
            break
    return ticks[first:last + 1]


def text_width(text, size=FONT_SIZE):
    """At least what a sans-serif font takes, in pixels."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text) * size * 0.66


class Picture:
    """SVG elements, in pixels."""

    def __init__(self):
        self.elements = []

    def text(self, x, y, text, attributes=""):
        self.elements.append(f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, attributes):
        self.elements.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {attributes}/>')

    def svg(self, width, height):
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="{FONT_SIZE}">',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>', *self.elements, "</svg>"]) + "\n"


def style_of(index):
    dash = DASHES[index // len(COLOURS) % len(DASHES)]
    return COLOURS[index % len(COLOURS)], f' stroke-dasharray="{dash}"' if dash else ""


def draw_panel(picture, lines, styles, ticks, place, title):
    """place: left, top, width and height of the inner part. styles: of each line, by its key."""
    left, top, width, height = place
    x_ticks, y_ticks = ticks

    def along(value, ticks):
        return math.log(value / ticks[0]) / math.log(ticks[-1] / ticks[0])

    def x(size):
        return left + width * along(size, x_ticks)

    def y(bandwidth):
        return top + height * (1 - along(bandwidth, y_ticks))

    if title:
        picture.text(left, top - 8, title, 'font-weight="bold"')
    every = math.ceil(len(x_ticks) * 44 / width)
    for i, size in enumerate(x_ticks):
        picture.line(x(size), top, x(size), top + height, 'stroke="#eee"')
        if i % every == 0:
            picture.text(x(size), top + height + 16, size_text(size), 'text-anchor="middle"')
    for bandwidth in y_ticks:
        picture.line(left, y(bandwidth), left + width, y(bandwidth), 'stroke="#ccc"')
        picture.text(left - 6, y(bandwidth) + 4, f"{bandwidth:g}", 'text-anchor="end"')
    for line in lines:
        colour, dash = style_of(styles[line.key])
        path = " ".join(f"{x(size):.1f},{y(bandwidth):.1f}" for size, bandwidth in line.points.items())
        picture.elements.append(f'<polyline points="{path}" fill="none" stroke-width="2" stroke="{colour}"{dash}>'
                                f'<title>{escape(line.label)}</title></polyline>')
        for size, bandwidth in line.points.items():
            picture.elements.append(
                f'<circle cx="{x(size):.1f}" cy="{y(bandwidth):.1f}" r="3" fill="{colour}"><title>'
                f'{escape(line.label)}: {size_text(size)}, {bandwidth:.4g} GB/s</title></circle>')


def facts_in_common(lines, placement, names):
    """What was measured, where, on how many ranks, and what else all lines have in common."""
    different = varying(lines)
    ranks = sorted({line.key.ranks for line in lines} - {""}, key=lambda text: int(text.split()[0]))
    facts = [" and ".join(sorted(names - {""})), placement.replace("_", " "), " and ".join(ranks)]
    return list(filter(None, facts)) + [getattr(lines[0].key, name) for name in ("type", "redop")
                                        if different and name not in different]


def draw(lines, title, placement, names):
    panel_fields = choose_panels(lines)
    line_fields = label_fields(lines, panel_fields)
    panels = {}
    for line in lines:
        panels.setdefault(text_of(line.key, panel_fields), []).append(line)
    entries = {}  # of the legend, and their styles
    for line in lines:
        entries.setdefault(text_of(line.key, line_fields) or line.key.file, len(entries))
    styles = {line.key: entries[text_of(line.key, line_fields) or line.key.file] for line in lines}
    if not line_fields and panel_fields:
        entries, styles = {}, {line.key: 0 for line in lines}  # the panels' titles say all

    in_row = 1 if len(panels) == 1 else 2 if len(panels) <= 4 else 3
    panel_width, panel_height = PANEL_SIZES[in_row]
    entry_width = max(map(text_width, entries), default=0) + 50
    panel_title_width = max(map(text_width, panels))
    panel_width = max(panel_width, panel_title_width)
    width = 2 * MARGIN + max(in_row * (panel_width + LEFT + GAP), entry_width)
    panel_width = (width - 2 * MARGIN) / in_row - LEFT - GAP

    picture, top = Picture(), MARGIN
    facts = facts_in_common(lines, placement, names)
    for size, text in ((TITLE_SIZE, plain(title)), (FONT_SIZE, ", ".join(facts))):
        for part in textwrap.wrap(text, max(int((width - 2 * MARGIN) / text_width("n", size)), 1)):
            top += size + 4
            picture.text(MARGIN, top, part, f'font-size="{size}"')
    top += 34

    bandwidths = [bandwidth for line in lines for bandwidth in line.points.values()]
    sizes = [size for line in lines for size in line.points]
    ticks = powers_of_2(min(sizes), max(sizes)), bandwidth_ticks(min(bandwidths), max(bandwidths))
    rows = math.ceil(len(panels) / in_row)
    for i, (panel_title, panel_lines) in enumerate(panels.items()):
        place = (MARGIN + LEFT + i % in_row * (panel_width + LEFT + GAP),
                 top + i // in_row * (panel_height + BOTTOM + GAP), panel_width, panel_height)
        draw_panel(picture, panel_lines, styles, ticks, place, panel_title)
    height = rows * (panel_height + BOTTOM + GAP) - GAP
    picture.text(width / 2, top + height, "size (bytes)", 'text-anchor="middle"')
    picture.elements.append(f'<text transform="translate({MARGIN} {top + (height - BOTTOM) / 2:.1f}) rotate(-90)" '
                            'text-anchor="middle">bus bandwidth (GB/s)</text>')
    top += height + ROW

    columns = max(int((width - 2 * MARGIN) / entry_width), 1)
    column_rows = math.ceil(len(entries) / columns)
    for entry, index in entries.items():
        x, y = MARGIN + index // column_rows * entry_width, top + ROW * (index % column_rows) + 10
        colour, dash = style_of(index)
        picture.line(x, y, x + 32, y, f'stroke-width="2" stroke="{colour}"{dash}')
        picture.text(x + 38, y + 4, entry)
    return picture.svg(width, top + ROW * column_rows + MARGIN)


def main():
    parser = argparse.ArgumentParser(description="Draws size against bus bandwidth of JSON reports as one SVG.")
    parser.add_argument("reports", nargs="+", metavar="JSON")
    parser.add_argument("-o", "--output", required=True, metavar="SVG")
    parser.add_argument("--in-place", action="store_true", help="of the in-place results [out of place]")
    parser.add_argument("--title", default="Bus bandwidth")
    parser.add_argument("--labels", nargs="+", metavar="TEXT", help="one for each report [its file's name]")
    arguments = parser.parse_args()
    labels = arguments.labels or distinct_labels(arguments.reports)
    if len(labels) != len(arguments.reports):
        parser.error(f"{len(labels)} labels for {len(arguments.reports)} reports")

    placement = "in_place" if arguments.in_place else "out_of_place"
    lines, names = [], set()
    for path, label in zip(arguments.reports, number_equal(labels)):
        try:
            file_lines, file_names = read_lines(path, label, placement)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            sys.exit(f"plot.py: cannot read {path} as a report: {error}")
        lines += file_lines
        names |= file_names
    if not lines:
        sys.exit("plot.py: no result has a bus bandwidth above 0; all_reduce on one rank has none")
    try:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(draw(lines, arguments.title, placement, names))
    except OSError as error:
        sys.exit(f"plot.py: cannot write {arguments.output}: {error}")


if __name__ == "__main__":
    main()
