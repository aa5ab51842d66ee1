#!/usr/bin/env python3
"""docs/pages.py on a small tree: pages_test.py PAGES"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PAGES = Path(sys.argv.pop(1)).resolve()

TREE = {
    "README.md": "# Room\n\nIntro.\n\n## Rules\n\n"
                 "`Value` holds `Value::get()`, see [here](docs/two.md).\n\n## Inside\n\nPrivate.\n",
    "docs/README.md": "# Not on the site\n",
    "docs/front.md": "# Front\n\n- [Two](two.md)\n- [More](more/README.md)\n",
    "docs/two.md": "# Two\n\n[shown](../README.md#rules)\n\n[code](../src/a.cpp#part)\n\n[text](a.txt)\n",
    "docs/a.txt": "42\n",
    "docs/more/README.md": "# More\n\n"
                           "The [rules](../../README.md#rules) of `ls::Value<T>` and of [a source](../../src/a.cpp).\n",
    "src/a.cpp": "int a;\n  //! [part]\n  int b;\n  //! [part]\n",
    "include/value.hpp": "struct Options {\n};\n",
    "tests/snippets/value.cpp": "//! [Value, Options]\nValue value;\n//! [Value, Options]\n",
}


def write_site(changes):
    """The site's files by name, and what is said in an error."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        for name, text in {**TREE, **changes}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        done = subprocess.run([sys.executable, PAGES, root, Path(folder) / "out"], capture_output=True, text=True)
        out = Path(folder) / "out"
        site = {file.name: file.read_text() for file in out.iterdir()} if done.returncode == 0 else {}
        return site, done.stderr.strip()


class Pages(unittest.TestCase):
    def test_pages_have_ids_and_are_listed_by_one_above(self):
        site, _ = write_site({})
        self.assertEqual(set(site), {"mainpage.md", "two.md", "more.md", "examples.dox"})
        self.assertEqual(site["mainpage.md"], '# Front {#mainpage}\n\n- @subpage two "Two"\n- @subpage more "More"\n')

    def test_a_link_alone_shows_what_it_leads_to(self):
        two = write_site({})[0]["two.md"]
        self.assertIn('<code>@ref lockstep::Value::get "Value::get()"</code>, see here.', two)
        self.assertIn("```cpp\nint b;\n```", two)
        self.assertIn("```\n42\n```", two)

    def test_a_whole_readme_is_shown_without_what_is_about_the_sources(self):
        two = write_site({"docs/two.md": "# Two\n\n[all](../README.md)\n"})[0]["two.md"]
        self.assertIn("Intro.", two)
        self.assertIn("## Rules", two)
        self.assertNotIn("Private", two)

    def test_links_lead_to_pages_or_become_text(self):
        more = write_site({})[0]["more.md"]
        self.assertIn('The @ref two "rules" of '
                      '<code>@ref lockstep::Value "ls::Value&lt;T&gt;"</code> and of a source.', more)

    def test_pictures_of_a_readme_are_copied(self):
        site, _ = write_site({
            "README.md": "# Room\n\n## Rules\n\nSo: ![spans](docs/spans.svg)\n![badge](https://host/badge.svg)\n",
            "docs/spans.svg": "<svg/>\n",
        })
        self.assertIn("So: ![spans](spans.svg)\n![badge](https://host/badge.svg)\n", site["two.md"])
        self.assertEqual(site["spans.svg"], "<svg/>\n")
        _, error = write_site({
            "docs/two.md": "# Two\n\n![one](a.svg) ![other](more/a.svg)\n",
            "docs/a.svg": "", "docs/more/a.svg": "",
        })
        self.assertEqual(error, "docs/two.md: two pictures have the name a.svg")

    def test_classes_get_their_examples(self):
        examples = write_site({})[0]["examples.dox"]
        self.assertIn("//! @class lockstep::Value\n"
                      "//! @par Example\n//! @code{.cpp}\n//! Value value;\n//! @endcode\n", examples)
        self.assertIn("//! @struct lockstep::Options\n", examples)

    def test_what_is_wrong_is_named(self):
        cases = [
            ("docs/two.md", "# Two\n\nSee [this](gone.md).\n", "docs/two.md: there is no gone.md"),
            ("docs/two.md", "# Two\n\n[this](gone.txt)\n", "docs/two.md: there is no gone.txt"),
            ("docs/two.md", "# Two\n\n![this](gone.svg)\n", "docs/two.md: there is no gone.svg"),
            ("docs/two.md", "# Two\n\n[this](../README.md#gone)\n", "README.md: there is no text under #gone"),
            ("docs/two.md", "# Two\n\nSee [this](../README.md#gone).\n", "README.md: there is no text under #gone"),
            ("docs/two.md", "# Two\n\n[this](../src/a.cpp#gone)\n", "docs/two.md: ../src/a.cpp has no snippet [gone]"),
            ("docs/two.md", "Two\n", "docs/two.md: the first line is no title"),
            ("docs/two.md", "# Two\n\n```cpp\nint c;\n```\n",
             "docs/two.md: show a file that tests compile, instead of code of the page's own"),
            ("docs/two.md", "# Two\n\n`ls::Value or so`\n",
             "`ls::Value or so` is not a name alone, or one that is called"),
            ("docs/three.md", "# Three\n", "docs/three.md: no page above it lists it"),
            ("src/a.cpp", "//! [part]\nint b;\n", "src/a.cpp: [part] does not end"),
            ("src/a.cpp", "//! [part]\n//! [other]\n", "src/a.cpp: [other] begins in [part]"),
            ("src/a.cpp", "//! [part]\n//! [part]\n//! [part]\n//! [part]\n", "src/a.cpp: two snippets [part]"),
            ("tests/snippets/other.cpp", "//! [Value]\n//! [Value]\n",
             "tests/snippets/value.cpp: Value has two examples"),
        ]
        for file, text, message in cases:
            with self.subTest(message):
                self.assertEqual(write_site({file: text})[1], message)


if __name__ == "__main__":
    unittest.main()
