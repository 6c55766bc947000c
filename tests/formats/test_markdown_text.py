"""Log text in Markdown is shown as logged and is inert."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from stabdiag.formats.markdown_text import block, code, escape
from stabdiag.formats.measured import visible

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = [
    "# heading", "1. list", "2) list", "- list", "+ list", "* list", "---", "- - -", "===",
    "> quote", "/close", "```", "~~~", "    indented", "<script>x</script>", "<!-- x",
    "&lt; &copy;", "a|b|c", "|", "*a* _b_ __c__ ~~d~~ `e`", "[a](http://b) ![a](b) [a]: b",
    "two\nlines\r\n\r\n# three", "\\", "a\\", "$x$", "[^1]", "- [ ] task", "a_b_ _c", "``` `` `",
    "\x1b[31mred\x07", "a\u202eb", "\udcff",
]  # fmt: skip

# Text that GitHub and GitLab turn into links, mentions and images after parsing.
LINKS = re.compile(
    r"@\w|\w#\d|\B[#!$%&~]\w|GH-\d|https?://|www\.\w|:[\w+-]+:|\[\w+:|\^alert", re.IGNORECASE
)


def inline(markdown):
    """Return the types and contents of the inline elements of a single paragraph."""
    tokens = READER.parse(markdown)
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    return [(child.type, child.content) for child in tokens[1].children or ()]


def cells(row):
    """Return the cells of a table row as HTML."""
    rendered = READER.render(f"| a | b |\n| --- | --- |\n{row}\n")
    return re.findall(r"<td>(.*?)</td>", rendered)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_a_paragraph_shown_as_logged(text):
    parts = inline(escape(text))
    assert {kind for kind, _ in parts} == {"text"}
    assert "".join(content for _, content in parts).replace("\u200b", "") == visible(text).strip()


@given(st.text(min_size=1).filter(lambda text: visible(text).strip()))
@example("a\n\n# b")
@example("1.")
def test_any_text_is_shown_as_logged(text):
    test_text_is_a_paragraph_shown_as_logged(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_in_its_cell(text):
    for shown in (escape(text), code(text)):
        first, second = cells(f"| {shown} | end |")
        assert "end" not in first
        assert second == "end"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_code_span_is_shown_as_logged(text):
    kinds = inline(code(text))
    if kinds[0][0] == "html_inline":
        assert (kinds[0], kinds[-1]) == (("html_inline", "<code>"), ("html_inline", "</code>"))
        kinds = kinds[1:-1]
    assert {kind for kind, _ in kinds} <= {"text", "code_inline"}
    shown = "".join(content for _, content in kinds).replace("\u200b", "")
    assert shown == visible(text).strip()


@pytest.mark.parametrize(
    "text",
    [
        "@octocat", "mail me@example.org", "#12", "owner/repo#3", "!4", "%5", "&6", "$7", "~bug",
        "^alert#8", "[issue:9]", "GH-10", "http://example.org",
        "WWW.example.org", ":boom:",
    ],
)  # fmt: skip
def test_text_does_not_become_a_link(text):
    assert LINKS.search(text)
    (part,) = {"".join(content for _, content in inline(escape(text)))}
    assert not LINKS.search(part)


def test_log_text_does_not_end_a_block():
    text = "stabdiag diagnose 'a\x1bb'\n```\n````\n# no heading"
    (token,) = READER.parse(block(text, "console"))
    assert (token.type, token.info) == ("fence", "console")
    assert token.content == text.replace("\x1b", r"\x1b") + "\n"
