"""Log text made visible and inert: the first half of every escape function."""

from __future__ import annotations

import re

# Lines by which a job gives orders to the server that runs it, were they not changed: ``::error::``
# of GitHub where a line begins, ``##[error]`` and ``##vso[…]`` of Azure anywhere in it.
ORDERS = re.compile(r"(?<!\S):(?=:[A-Za-z])|#(?=#\w*\[)")


def visible(text: str) -> str:
    r"""Write what is not printable, or an order to a server, as Python would: ``\x1b``, ``\n``.

    That is controls, escape sequences, line breaks, marks that turn the direction of writing, lone
    surrogates, and the first sign of ``::error::`` or ``##[error]``. All that is left stands on one
    line and can be encoded.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else code(c) for c in text)
    return ORDERS.sub(lambda sign: f"\\x{ord(sign.group()):02x}", text)


def code(char: str) -> str:
    """Return one character as Python writes it in ASCII."""
    return char.encode("unicode_escape").decode("ascii")
