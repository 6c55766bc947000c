"""Write a page of the documentation: ``python -m stabdiag.explain outcomes > docs/outcomes.md``."""

from __future__ import annotations

import sys

from stabdiag.explain.pages import PAGES, page


def main(arguments: list[str]) -> int:
    """Write one page to standard output; 2 for a page that does not exist."""
    if len(arguments) != 1 or arguments[0] not in PAGES:
        sys.stderr.write(f"usage: python -m stabdiag.explain {{{','.join(PAGES)}}}\n")
        return 2
    sys.stdout.write(page(arguments[0]))
    return 0


if __name__ == "__main__":  # pragma: no cover
    sys.exit(main(sys.argv[1:]))
