"""Nothing that a log or a manifest brings along changes the document or does anything."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt

import stabdiag
from stabdiag import postmortem
from stabdiag.formats.postmortem.document import html, markdown
from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.history import Event, EventKind
from stabdiag.model.report import NotLogged, Tree

ROOT = Path(__file__).parents[2]
LOGS = [
    "fixtures/runs/nan-empty-mask-bf16/log.parquet",
    "fixtures/runs/divergence-weight-norm-climbing/log.jsonl",
    "fixtures/runs/symptom-loss-constant/log.jsonl",
    "fixtures/runs/symptom-eval-rising/log.jsonl",
]
HOSTILE = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "closing": "</style></svg></td></table></main><h1>x",
    "attribute": "\" onload='x' style=\"color:red",
    "comment": "<!-- x --> ]]>",
    "ansi": "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b1m",
    "command": "::error file=x::y",
    "command line": "x\n::set-output name=a::b\n##[error]z",
    "table": "a | b | c\n| --- | --- |",
    "cell": "x` | `y",
    "formula": "=cmd|' /C calc'!A0",
    "heading": "# x",
    "fence": "```\nx\n````",
    "list": "- [ ] **To be filled in:** x",
    "number": "1. x",
    "emphasis": "*a* _b_ **c** ~~d~~ `e`",
    "link": "[a](javascript:alert(1)) ![b](http://x/y.png) <http://z> [c]: d",
    "entity": "&lt;b&gt; &#60;",
    "bidi": "loss\u202egnp.exe\u2066\u200f",
    "surrogate": "a\udcffb",
    "mention": "@team #1 $HOME $$x$$",
    "braces": "{hash} {0} %s",
    "long": "x" * 300,
    "backslash": "a\\",
}


def hostile(report, name):
    """Put a name wherever text of a log or a manifest can go."""
    logged = {role: replace(s, column=name) for role, s in report.history.series.items()}
    loss = report.history.series["loss"]
    # Of several groups the one that moves most is drawn: this one.
    wild = np.abs(loss.values) ** 9
    roles = (f"grad_norm/{name}", f"weight_norm/{name}")
    norms = {role: replace(loss, values=wild, column=name, role=role) for role in roles}
    events = (
        Event(kind=EventKind.MESSAGE, message=name, step=500, line=3),
        Event(kind=EventKind.REWIND, message=name, step=300),
        Event(kind=EventKind.COLUMN, message=name),
    )
    source = replace(report.history.source, name=name, format=name, attempts=2)
    act = Action(ActionKind.LOG_MORE, name)
    found = replace(
        report.diagnosis,
        title=name,
        summary=name,
        actions=(act, act),
        evidence={name: name},
    )
    return replace(
        report,
        findings=(found, *(replace(f, title=name, actions=(act,)) for f in report.also_found)),
        tree=Tree(
            outcome=found,
            answers=tuple(
                replace(a, because=name, asks=name, measured={**a.measured, name: name})
                for a in report.tree.answers
            ),
        ),
        not_logged=(NotLogged(role=name, cost=name),),
        not_checked=tuple(replace(one, missing=(name,)) for one in report.not_checked),
        history=replace(
            report.history,
            series={**logged, **norms},
            source=source,
            events=events,
        ),
        manifest=replace(
            report.manifest,
            path=name,
            schedule=name,
            logged=("schedule",),
            inferred={"optimizer": name},
            unknown={name: name, "seq_len": name},
        ),
    )


def structure(markdown):
    """Return the kinds of all that a reader of Markdown finds, text left out."""
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    found = []
    for token in reader.parse(markdown):
        found.append(token.type)
        found += [child.type for child in token.children or () if child.type != "text"]
    return found


class Tags(HTMLParser):
    """The tags of a page with the names of their attributes, and what is open."""

    def __init__(self):
        super().__init__()
        self.tags = []
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, *(name for name, _ in attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, *(name for name, _ in attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tags(text):
    reader = Tags()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader.tags


@cache
def expected(log):
    """Return the structure of the document on a run in which all names are plain."""
    report = hostile(reports(log), "plain")
    return structure(markdown(report)), tags(html(report))


@cache
def reports(log):
    return stabdiag.diagnose(ROOT / log)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("log", LOGS)
def test_a_name_changes_nothing(log, name):
    report = hostile(reports(log), name)
    text, page = markdown(report), html(report)
    assert (structure(text), tags(page)) == expected(log)
    assert all(char == "\n" or char.isprintable() for char in page)
    assert all(char in "\n\u200b" or char.isprintable() for char in text)
    assert not re.search(r"^\s*(::|##\[)", text, re.MULTILINE)


def test_what_was_logged_can_still_be_read(broken):
    name = "<b>loss</b> | x_1 \u202e"
    text = postmortem(hostile(broken(), name), "html")
    assert "&lt;b&gt;loss&lt;/b&gt; | x_1 \\u202e" in text


def test_names_in_a_log_stay_names(broken):
    name = "grad_norm/<script>alert(1)</script>|a"
    report = broken({name: np.full(600, np.inf)}, seq_len="<b>9</b>", batch_size=4)
    text = postmortem(report, "html")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
