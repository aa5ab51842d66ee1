#!/usr/bin/env python3
"""pages.py SOURCE OUT: writes what Doxygen reads, from the Markdown of docs/ and the snippets of tests/snippets/.

The Markdown is GitHub's, and its links work there. On the site
- a link that stands alone on a line shows what it leads to: a C++ file as code, FILE#name the part of it between two
  lines `//! [name]`, a .txt file as a program's output, README.md#heading the text under that heading of a README;
- names in backticks that begin with `ls::`, in READMEs also those that begin with a class, lead to their documentation.
  A name that is not there is a warning of Doxygen's, which is an error;
- links to files that are no pages become text, and a link to nothing is an error;
- pictures, `![text](file.svg)`, are copied to OUT.

A snippet of tests/snippets/ that is named after classes, as `//! [Event, EventRef]`, is the example on their pages.
"""
import html
import pathlib
import re
import shutil
import sys

SOURCE, OUT = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
LINK_OR_PICTURE = re.compile("(!?)" + LINK.pattern)
FENCE = re.compile(r"^ *```")


def fail(file, message):
    sys.exit(f"{file.relative_to(SOURCE)}: {message}")


def dedent(lines):
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[indent:] for line in lines]


def snippets(file):
    """The parts of a C++ file between pairs of lines `//! [name]`, by name."""
    found, name = {}, None
    for line in file.read_text().splitlines():
        marker = re.fullmatch(r"\s*//! \[(.+)\]", line)
        if not marker:
            if name:
                found[name].append(line)
        elif name is None:
            name = marker[1]
            if name in found:
                fail(file, f"two snippets [{name}]")
            found[name] = []
        elif name == marker[1]:
            name = None
        else:
            fail(file, f"[{marker[1]}] begins in [{name}]")
    if name:
        fail(file, f"[{name}] does not end")
    return {name: dedent(lines) for name, lines in found.items()}


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def section(file, fragment):
    """The lines under a heading; without a fragment all but the title, and but what is about the sources."""
    lines, inside, in_code = [], not fragment, False
    for line in file.read_text().splitlines():
        in_code ^= bool(FENCE.match(line))
        heading = None if in_code else re.match(r"(#+) (.*)", line)
        if heading and fragment:
            if inside:
                break
            inside = slug(heading[2]) == fragment
            continue
        if heading:
            inside = heading[2] != "Inside"
            if heading[1] == "#":
                continue
        if inside:
            lines.append(line)
    if not lines:
        fail(file, f"there is no text under #{fragment}")
    return lines


class Site:
    def __init__(self):
        docs = SOURCE / "docs"
        # Those that list others come first.
        files = [docs / "front.md", *sorted(docs.glob("*/*.md")), *sorted(docs.glob("*.md"))]
        self.pages = {file: self.page_id(file.relative_to(docs)) for file in files if file != docs / "README.md"}
        self.examples = {}  # lines of code, by the name of a class
        for file in sorted((SOURCE / "tests/snippets").glob("*.cpp")):
            for name, lines in snippets(file).items():
                for cls in name.split(", "):
                    if cls in self.examples:
                        fail(file, f"{cls} has two examples")
                    self.examples[cls] = lines
        self.classes = {cls.split("::")[-1]: cls for cls in self.examples if not cls.startswith("backend")}
        headers = (file.read_text() for file in (SOURCE / "include").rglob("*.hpp"))
        self.structs = {name for text in headers for name in re.findall(r"^ *struct (\w+) .*{", text, re.MULTILINE)}
        self.shown = {}  # the page that shows a README, or a part of it
        for page in self.pages:
            for line in page.read_text().splitlines():
                alone = LINK.fullmatch(line.strip())
                if alone and ".md" in alone[2]:
                    target, _, fragment = alone[2].partition("#")
                    target = (page.parent / target).resolve()
                    self.shown.setdefault((target, fragment), page)
                    self.shown.setdefault((target, ""), page)

    @staticmethod
    def page_id(path):
        if path.name == "front.md":
            return "mainpage"
        parts = list(path.with_suffix("").parts)
        return "_".join(parts[:-1] if parts[-1] == "README" else parts)

    def name(self, text, is_readme):
        """Code in backticks, which leads to its documentation if it is a name of the library."""
        target = re.match(r"(ls::)?([A-Za-z_]\w*)(?:<[^>]*>)?((?:::\w+)*)(?=$|[({])", text)
        if not target:
            if text.startswith("ls::"):
                sys.exit(f"`{text}` is not a name alone, or one that is called")
            return f"`{text}`"
        prefix, first, rest = target.groups()
        if not prefix:
            if not is_readme or first not in self.classes:
                return f"`{text}`"
            first = self.classes[first]
        label = html.escape(text, quote=False).replace('"', "&quot;")
        return f'<code>@ref lockstep::{first}{rest} "{label}"</code>'

    def picture(self, base, label, target):
        if "://" in target:
            return f"![{label}]({target})"
        file = (base.parent / target).resolve()
        if not file.is_file():
            fail(base, f"there is no {target}")
        if self.pictures.setdefault(file.name, file) != file:
            fail(base, f"two pictures have the name {file.name}")
        return f"![{label}]({file.name})"

    def link(self, page, base, label, target):
        if "://" in target:
            return f"[{label}]({target})"
        path, _, fragment = target.partition("#")
        file = (base.parent / path).resolve()
        if not file.exists():
            fail(base, f"there is no {target}")
        if file.is_dir():
            file = file / "README.md"
        elif fragment and file.suffix == ".md":
            section(file, fragment)
        file = self.shown.get((file, fragment)) or self.shown.get((file, "")) or file
        if file not in self.pages or file == page:
            return label
        below = page.name in ("front.md", "README.md") and file not in (page, SOURCE / "docs/front.md")
        nearer = file.parent == page.parent or file.name == "README.md" and file.parent.parent == page.parent
        command = "subpage" if below and nearer and file not in self.placed else "ref"
        if command == "subpage":
            self.placed.add(file)
        page_id = self.pages[file] if file.name != "front.md" else "index"
        return f'@{command} {page_id} "{label.replace("`", "")}"'

    def text(self, page, base, line):
        line = LINK_OR_PICTURE.sub(
            lambda m: self.picture(base, m[2], m[3]) if m[1] else self.link(page, base, m[2], m[3]), line)
        parts = re.split(r"(`[^`]+`)", line)
        return "".join(self.name(part[1:-1], base != page) if part.startswith("`") else part for part in parts)

    def lines(self, page, base, lines):
        in_code = False
        for line in lines:
            fence = FENCE.match(line)
            in_code ^= bool(fence)
            alone = None if in_code else LINK.fullmatch(line.strip())
            if alone and not line.startswith("-") and self.is_shown(alone[2]):
                yield from self.show(page, base, alone[2])
            elif fence and in_code and "cpp" in line and base == page:
                fail(page, "show a file that tests compile, instead of code of the page's own")
            elif in_code or fence or line.startswith("    "):
                yield line
            else:
                yield self.text(page, base, line)

    @staticmethod
    def is_shown(target):
        return "://" not in target and re.search(r"\.(cpp|hpp|txt|md)(#|$)", target) is not None

    def show(self, page, base, target):
        path, _, fragment = target.partition("#")
        file = (base.parent / path).resolve()
        if not file.is_file():
            fail(base, f"there is no {target}")
        if file.suffix == ".md":
            yield from self.lines(page, file, section(file, fragment))
        elif file.suffix == ".txt":
            yield from ["```", *file.read_text().splitlines(), "```"]
        else:
            code = [line for line in file.read_text().splitlines() if not line.strip().startswith("//! [")]
            if fragment:
                code = snippets(file).get(fragment) or fail(base, f"{path} has no snippet [{fragment}]")
            yield from ["```cpp", *code, "```"]

    def write(self):
        OUT.mkdir(parents=True, exist_ok=True)
        for old in OUT.iterdir():
            old.unlink()
        self.placed = set()
        self.pictures = {}  # files, by the names that they have in OUT
        for page, page_id in self.pages.items():
            lines = list(self.lines(page, page, page.read_text().splitlines()))
            if not lines or not lines[0].startswith("# "):
                fail(page, "the first line is no title")
            lines[0] += f" {{#{page_id}}}"
            (OUT / f"{page_id}.md").write_text("\n".join(lines) + "\n")
        for name, file in self.pictures.items():
            shutil.copyfile(file, OUT / name)
        with open(OUT / "examples.dox", "w") as out:
            for cls, lines in self.examples.items():
                kind = "struct" if cls.split("::")[-1] in self.structs else "class"
                comment = [f"@{kind} lockstep::{cls}", "@par Example", "@code{.cpp}", *lines, "@endcode"]
                out.write("".join(f"//! {line}\n" for line in comment) + "\n")
        missing = [page for page in self.pages if page not in self.placed and page.name != "front.md"]
        if missing:
            fail(missing[0], "no page above it lists it")


Site().write()
