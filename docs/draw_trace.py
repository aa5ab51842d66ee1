#!/usr/bin/env python3
"""draw_trace.py TRACE OUT.svg [BEGIN_US LENGTH_US]: a part of a recording of LOCKSTEP_TRACE as a picture.

BEGIN_US counts from the recording's first span. Replicas are rows, spans within spans lie below them, and what is
striped is time of waiting.
"""
import html
import json
import sys

COLOURS = {"run": "#4c78a8", "collective": "#f58518", "update": "#54a24b", "input": "#b279a2",
           "checkpoint": "#9d755d"}
LEFT, WIDTH, BAR = 90, 870, 16


def nested(spans):
    """The spans of a row with their depths."""
    around = []
    for span in sorted(spans, key=lambda span: (span["ts"], -span["dur"])):
        while around and around[-1] <= span["ts"] + 0.002:
            around.pop()
        yield span, len(around)
        around.append(span["ts"] + span["dur"])


def main():
    source, out = sys.argv[1:3]
    with open(source, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    spans = [e for e in events if e["ph"] == "X"]
    first = min(e["ts"] for e in spans)
    begin, length = 0.0, max(e["ts"] + e["dur"] for e in spans) - first
    if len(sys.argv) > 3:
        begin, length = (float(argument) for argument in sys.argv[3:5])

    def place(us):
        return LEFT + (us - first - begin) / length * WIDTH

    body, y = [], 24
    for row in sorted(names):
        shown = [(s, d) for s, d in nested([e for e in spans if e["tid"] == row])
                 if s["ts"] + s["dur"] > first + begin and s["ts"] < first + begin + length]
        if not shown:
            continue
        body.append(f'<text x="4" y="{y + 12}">{html.escape(names[row])}</text>')
        for span, depth in shown:
            x0 = max(LEFT, place(span["ts"]))
            width = max(0.6, min(LEFT + WIDTH, place(span["ts"] + span["dur"])) - x0)
            top = y + depth * BAR
            title = f'{span["name"]}, {span["dur"]:.1f} us'
            body.append(f'<g><title>{html.escape(title)}</title><rect x="{x0:.1f}" y="{top}" width="{width:.1f}" '
                        f'height="{BAR - 2}" fill="{COLOURS[span["cat"]]}"/>')
            waiting = span["args"].get("waiting_us", 0) / length * WIDTH
            if waiting > 1:
                body.append(f'<rect x="{x0:.1f}" y="{top}" width="{min(waiting, width):.1f}" height="{BAR - 2}" '
                            'fill="url(#w)"/>')
            if width > 6.5 * len(span["name"]):
                body.append(f'<text x="{x0 + 3:.1f}" y="{top + 11}" fill="#fff">{html.escape(span["name"])}</text>')
            body.append("</g>")
        y += (max(d for _, d in shown) + 1) * BAR + 8
    legend = "".join(f'<rect x="{LEFT + 110 * i}" y="4" width="10" height="10" fill="{colour}"/>'
                     f'<text x="{LEFT + 110 * i + 14}" y="13">{kind}</text>'
                     for i, (kind, colour) in enumerate(COLOURS.items()))
    with open(out, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 10} {y}" font-family="sans-serif" '
                   'font-size="11"><defs><pattern id="w" width="5" height="5" patternUnits="userSpaceOnUse" '
                   'patternTransform="rotate(45)"><rect width="2" height="5" fill="#fff" fill-opacity="0.5"/></pattern></defs>'
                   '<rect width="100%" height="100%" fill="#fff"/>' + legend + "\n" + "\n".join(body) + "</svg>\n")


main()
