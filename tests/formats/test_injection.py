"""Log text is untrusted: it never becomes markup, an escape code or a command in any format.

Each format is rendered with a plain name and with hostile names in every place for text of a log or
a manifest. Parsing both must give the same structure: elements, blocks, keys and commands. The
tests cover all formats.
"""

from __future__ import annotations

import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from functools import cache, lru_cache
from html.parser import HTMLParser

import numpy as np
import pytest
from markdown_it import MarkdownIt

import stabdiag
from stabdiag.formats import names, render
from stabdiag.model.events import Event, EventKind
from stabdiag.model.history import History, Series, Source
from tests.formats.conftest import renamed

HOSTILE = {
    "html": '<script>alert(1)</script><img src=x onerror="alert(1)">',
    "attribute": "x\" onload='alert(1)' y=\"",
    "end": "]]> --> </details></summary></pre></script></style></svg>",
    "entity": "&lt;b&gt; &#60;b&#62; &amp;",
    "ansi": "\x1b[31mred\x1b[0m \x9b32m \x1b]0;title\x07 \x1b]8;;http://x\x1b\\",
    "lines": "one\n\n# two\r\n- three\u2028four\u2029\x0b\x0c\x85",
    "error": "::error file=a.py,line=1::owned",
    "output": "::set-output name=diagnosis::healthy",
    "new line": "x\n::stop-commands::token\n  ::add-mask::x\n::add-path::/tmp",
    "encoded": "x%0A::error::y%0D%25",
    "azure": "##[error]x ##[set-env name=A]b ##vso[task.setvariable variable=a]b ##teamcity[x]",
    "far": f"{'x' * 67}::error::owned {'y' * 66}::add-mask::owned {'z' * 60} ::warning::owned",
    "table": "a | b |\n| --- | --- |\n| c | d |",
    "markdown": "**a** _b_ `c` ~~d~~ [e](http://f) ![g](h) <i>j</i> # k > l - m 1. n",
    "fence": "```\n``` ~~~ ````` `` `",
    "comment": "<!-- stabdiag --> @octocat #1 !2 org/repo#3 GH-4 http://example.org /close",
    "formula": '=HYPERLINK("http://x";"y") +1 -1 @SUM(A1) \t=1',
    "bidi": "loss\u202egnp.exe \u2066a\u2069 \u200f \u061c",
    "link": "[click](javascript:alert(1)) {0} {{x}} ${x} $x$ %s",
    "rich": "[bold red]x[/] [link=http://x]y[/link]",
    "surrogate": "a\udcffb",
    "nul": "a\x00b\ufffe\uffff",
    "wide": "損失" * 60,
}
BEGINS = [f"{start}stabdiag" for start in "=+-@#>|*/"]
# All hostile texts together; the escape functions are tested on each of them elsewhere.
JOINED = (" ".join(HOSTILE.values()), "\n".join([*BEGINS, *HOSTILE.values()]))
PLAIN = "plain"

# Categories of characters that change the writing direction or control a terminal.
LOUD = {"Cc", "Cf", "Cs", "Zl", "Zp"}


class Tags(HTMLParser):
    """The elements of a page with their attribute names, in order."""

    def __init__(self):
        super().__init__()
        self.elements = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, [name for name, _ in attrs]))

    def handle_endtag(self, tag):
        self.elements.append(tag)

    def handle_comment(self, data):
        self.elements.append(f"comment {data}")


def parse_html(text):
    tags = Tags()
    tags.feed(text)
    tags.close()
    return tags.elements


def parse_xml(text):
    return [(element.tag, sorted(element.attrib)) for element in ET.fromstring(text).iter()]


def parse_svg(text):
    """Return the kinds of elements; the number of text lines may vary."""
    return {element.tag for element in ET.fromstring(text).iter()}


def parse_json(text):
    def shape(value):
        if isinstance(value, dict):
            return [shape(part) for part in value.values()]
        return [shape(part) for part in value] if isinstance(value, list) else type(value)

    return shape(json.loads(text))


def parse_markdown(text):
    """Return the kinds of blocks and of their inline elements; code may have tags."""
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    structure = []
    for token in reader.parse(text):
        structure.append((token.type, token.tag, token.info))
        if token.type == "html_block":
            structure.append(token.content)
        inside = [child.type for child in token.children or () if child.type != "text"]
        tags = [c.content for c in token.children or () if c.type == "html_inline"]
        assert {*tags} <= {"<code>", "</code>", "<sub>", "</sub>"}
        structure.append([kind for kind in inside if kind not in ("code_inline", "html_inline")])
    return structure


def parse_github(text):
    lines = [re.fullmatch(r"::(\w+) (.*?)::(.*)", line) for line in text.splitlines()]
    assert all(lines)
    return [
        (line.group(1), [part.partition("=")[0] for part in line.group(2).split(",")])
        for line in lines
        if line
    ]


def parse_terminal(text):
    return {char for char in {*text} if not char.isprintable()}


def parse_lines(text):
    return [line.startswith("    ") for line in text.split("\n")]


READERS = {
    "terminal": parse_terminal,
    "lines": parse_lines,
    "svg": parse_svg,
    "markdown": parse_markdown,
    "github": parse_github,
    "junit": parse_xml,
}


@lru_cache(maxsize=2)  # the plain text is compared with one text after another
def structure(format_name, text):
    """Return the structure of a text in a format, without the words."""
    if format_name in READERS:
        return READERS[format_name](text)
    return parse_json(text) if text[:1] in "[{" else parse_html(text)


def commands(text):
    """Return the lines that a server would execute as commands."""
    return [
        line
        for line in re.split(r"[\r\n]", text)
        if re.match(r"\s*::[\w-]+( .*?)?::", line) or re.search(r"##\w*\[", line)
    ]


def check(format_name, text, plain):
    assert text != plain or text in ("", "[]")  # some formats contain only findings
    assert structure(format_name, text) == structure(format_name, plain)
    allowed = {"\n", "\t"} if format_name != "markdown" else {"\n", "\ufe0f"}
    assert {char for char in {*text} if unicodedata.category(char) in LOUD} <= allowed
    text.encode("utf-8")
    if format_name != "github":
        assert commands(text) == []


@pytest.mark.parametrize("format_name", names())
def test_log_text_is_inert(persistent, format_name):
    plain = render(renamed(persistent, PLAIN), format_name)
    for name in (*HOSTILE.values(), *BEGINS):
        check(format_name, render(renamed(persistent, name), format_name), plain)


@pytest.mark.parametrize("made", ["healthy", "nan"])
@pytest.mark.parametrize("format_name", names())
def test_log_text_is_inert_in_every_kind_of_report(request, monkeypatch, format_name, made):
    monkeypatch.setattr("stabdiag.formats.markdown.MAX_CHARS", 10**6)  # nothing is left out
    report = request.getfixturevalue(made)
    plain = render(renamed(report, PLAIN), format_name)
    for joined in JOINED:
        check(format_name, render(renamed(report, joined), format_name), plain)


@pytest.mark.parametrize("joined", ["\n".join(HOSTILE.values()), " ".join(BEGINS)])
def test_a_notebook_is_inert(persistent, joined):
    plain, hostile = (renamed(persistent, name)._repr_html_() for name in (PLAIN, joined))
    check("html", hostile, plain)
    assert "<script" not in hostile


@pytest.mark.parametrize("format_name", names("postmortem"))
@pytest.mark.parametrize("made", ["nan", "healthy"])
def test_a_post_mortem_is_inert(request, format_name, made):
    report = request.getfixturevalue(made)
    plain = render(renamed(report, PLAIN), format_name, "postmortem")
    for name in (*BEGINS, *JOINED):
        check(format_name, render(renamed(report, name), format_name, "postmortem"), plain)


@cache
def side_by_side(name, kind):
    """Compare two runs with a name in every place for text of a log or a manifest."""
    steps = np.arange(60)
    histories = []
    for i in range(2):
        loss = 3.0 - steps / 30 + np.where(steps > 40, 0.7 * i, 0.0)
        values = {"loss": loss, f"weight_norm/{name}": loss + 1}
        message = f"traceback: Connection closed by peer {name}" if i else f"killed: {name}"
        histories.append(
            History(
                series={
                    role: Series(role=role, column=name, steps=steps, values=array)
                    for role, array in values.items()
                },
                source=Source(name=f"{name} {i}", format=name, records=60, unreadable=2),
                events=(Event(kind=EventKind.MESSAGE, message=message, line=3),),
            )
        )
    manifests = [
        {"optimizer": f"{name} {i}", f"amp.{name}": f"{name}{i}", "run_name": f"{i} {name}"}
        for i in range(2)
    ]
    return stabdiag.compare(histories, kind=kind, manifests=manifests)


@pytest.mark.parametrize("kind", ["seeds", "reruns", "ranks", "resume"])
@pytest.mark.parametrize("format_name", names("comparison"))
def test_a_comparison_is_inert(format_name, kind):
    plain = render(side_by_side(PLAIN, kind), format_name, "comparison", verbose=True)
    for joined in JOINED:
        hostile = render(side_by_side(joined, kind), format_name, "comparison", verbose=True)
        check(format_name, hostile, plain)
