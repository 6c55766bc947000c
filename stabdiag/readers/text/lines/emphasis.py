"""Remove the marks that emphasize a value in a post or on a page."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.line_forms import may_contain

# **nan**, and **loss: nan**, also from within a word; no banner of asterisks, no power: b**2.
_BOLD_TEXT: Final = lazy_pattern(rb"\*\*(?<!\*\*\*)([\w.+-][^*\n]{0,200})\*\*(?![\w*(]|[.+-]\d)")

# loss: *0.25*, loss: `nan`, loss `nan`; the sign may also be a product, or belong to a word.
_MARKED_SCALAR: Final = rb"[-+]?(?:\d[\d.]{0,30}(?:[eE][-+]?\d{1,3})?|[nN]a[nN]|NAN|[iI]nf)%?"
_MARKED_PAIRS: Final = tuple(
    (
        sign,
        lazy_pattern(
            rb"%b(?:(?<=[:=].)|(?<=[:=] .)%b)(%b)%b(?![\w*])" % (mark, before, _MARKED_SCALAR, mark)
        ),
    )
    for sign, mark, before in ((b"*", rb"\*", b""), (b"`", b"`", rb"|(?<=oss .)"))
)

# The text between two marks; a function is faster than a template.
_MARKED_TEXT: Final = itemgetter(1)

# loss: <b>nan</b>
_TAG: Final = lazy_pattern(
    rb"<(?:/(?:b|i|u|em|strong|code|mark|kbd|samp|font|span)>|(?:b|i|u|em|strong|code|mark|kbd|samp)>"
    rb"|(?:font|span) [^<>\n]{1,100}>)"
)


def without_emphasis(block: bytes) -> bytes:
    """Return a block without the marks of Markdown and HTML around values."""
    # The search for a single byte is far faster, and most logs have none of them.
    for sign, marked in _MARKED_PAIRS:
        if sign in block:
            block = marked.sub(_MARKED_TEXT, block)
    if b"*" in block and b"**" in block:
        block = _BOLD_TEXT.sub(_MARKED_TEXT, block)
    return _TAG.sub(b"", block) if may_contain(block, b"</") else block
