"""Recognize source code, whose literals may contain a whole log.

Tests of programs that read logs do. Code at the head of a log, as modded-nanogpt prints its own,
and code above the log in a post do not make it source code: the log follows it.
"""

from __future__ import annotations

from typing import Final

from stabdiag.model.patterns import lazy_pattern

# The first line that is not blank or a comment: of Python, JavaScript, C, Rust, Go, Java, Julia, R.
_STATEMENT: Final = lazy_pattern(
    rb"(?:[rRbBuUfF]{0,2}(?:\"\"\"|''')"
    rb"|(?:from [\w.]{1,100} )?import [\w{*\"'.]|(?:async )?def \w|class \w{1,80}[(:{ ]|@\w"
    rb"|(?:const|let|var) [\w{\[][^=\n]{0,100}=|(?:export|function) |['\"]use strict|describe\("
    rb"|\#include|\#pragma|\#ifndef|namespace |template ?<|use [\w:]{1,100}(?:;|::)|mod \w{1,80};"
    rb"|(?:pub )?fn \w|\#!?\[|package [\w.]{1,100};?\s|using [\w.: ,]{1,100};?\s|module \w"
    rb"|library\(|(?:public|private|static) )"
)
_COMMENT: Final = lazy_pattern(rb"[ \t]*(?:#!|# -\*-|//|/\*|\*[ /]|--\[\[)")
# Comments of Python may begin a log as well, as in a table with a comment above its names.
_PYTHON_COMMENT: Final = lazy_pattern(rb"[ \t]*#(?!include|pragma|ifndef|!?\[)")

# The last line: the end of a literal or a block, or a statement.
_ENDS: Final = lazy_pattern(
    rb"[\s)\]}\"'`]*[)\]}\"'`][;,]?\s*$|[ \t].*[)\]}\"'`][;,]?\s*$|[A-Za-z_][\w.]*\(.*\)[;,]?\s*$"
    rb"|.*(?:[;{]|; ?\})\s*$|end\s*$"
    rb"|\s*(?:assert|return|yield|raise|pass|break|continue|await|del)\b"
    rb"|(?:[ \t]+(?:self\.)?[A-Za-z_][\w.]*|[A-Z][A-Z_\d]+)(?:: ?\w+)? = "
)
_MAX_SOURCE_LINE: Final = 400
# In a post, the log is between two of these.
_FENCE: Final = lazy_pattern(rb"(?m)^```\w*\s*$")

_QUOTES: Final = (b'"""', b"'''")

# The end of a longer text is not known.
MAX_SOURCE: Final = 1 << 22


def begins_as_source(head: bytes) -> bool:
    """Return True if the first statement of a text is source code; fast for all logs."""
    for line in head.removeprefix(b"\xef\xbb\xbf").splitlines()[:_MAX_SOURCE_LINE]:
        if not line.strip() or _COMMENT.match(line) or _PYTHON_COMMENT.match(line):
            continue
        return _STATEMENT.match(line) is not None
    return False


def is_source_code(text: bytes) -> bool:
    """Return True if a whole text begins and ends as source code."""
    if not begins_as_source(text) or _FENCE.search(text) or _is_one_literal(text):
        return False
    last = text.rstrip().rpartition(b"\n")[2]
    return _ENDS.match(last[:_MAX_SOURCE_LINE]) is not None


def _is_one_literal(text: bytes) -> bool:
    """Return True if a text is a single literal, as people keep the output of a program in code."""
    literal = text.strip()
    quotes = literal[:3]
    return quotes in _QUOTES and literal.endswith(quotes) and literal.count(quotes) == 2
