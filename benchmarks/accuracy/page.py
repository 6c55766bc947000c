"""Write ``docs/accuracy.md`` and its pictures, or check that the page is current.

    python benchmarks/accuracy/page.py                 write them (needs matplotlib)
    python benchmarks/accuracy/page.py --check         exit 1 if the page is not current

``--split`` and ``--data`` say which runs the page is about.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import corpus
from page_text import page
from scoring import score

DOCS = Path(__file__).parent.parent.parent / "docs"
SPLIT = "tenth"  # what the page is about, unless told otherwise


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Write the page on accuracy.")
    parser.add_argument("--split", default=SPLIT, help="a split of the labels, or all")
    parser.add_argument("--data", type=Path, help="folder of the corpus, if another than its own")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if not current")
    options = parser.parse_args()
    data = options.data or corpus.folder_of(options.split)
    corpus.check_split(data, options.split)
    scored = score(data, options.split)
    text = page(scored, data, options.split)
    target = DOCS / "accuracy.md"
    if options.check:
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            sys.exit("docs/accuracy.md is not current; run make accuracy-page")
        return
    from page_pictures import draw_all

    target.write_text(text, encoding="utf-8")
    draw_all(scored, DOCS / "accuracy")


if __name__ == "__main__":
    main()
