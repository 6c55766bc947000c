"""What a log brings along, made visible: the first half of every format's escape function."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Write what is not printable as Python would: ``\x1b``, ``\n``, ``\u202e``.

    That is controls, escape sequences, line breaks, marks that turn the direction of writing, and
    lone surrogates. All that is left stands on one line and can be encoded.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else code(c) for c in text)


def code(char: str) -> str:
    """Return one character as Python writes it in ASCII."""
    return char.encode("unicode_escape").decode("ascii")
