"""Search the explanations by words, as a user would describe a problem."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from stabdiag.model.text import word_list

if TYPE_CHECKING:
    from collections.abc import Mapping

# Words with one meaning here, by the beginnings of their forms.
_SYNONYMS: Final = (
    ("val", "valid", "validation", "eval", "evaluation", "evaluate", "heldout", "test", "dev"),
    ("up", "rise", "rising", "rose", "increase", "climb", "diverge", "divergence", "grow"),
    ("down", "fall", "fell", "decrease", "drop", "lower", "decline"),
    ("stuck", "flat", "constant", "plateau", "unchanged", "same"),
    ("slow", "slowly", "throughput", "wait", "stall"),
    ("nan", "nonfinite", "finite", "infinite", "inf"),
    ("explode", "blow", "blowup"),
    ("lr", "rate"),
    ("grad", "gradient"),
    ("acc", "accuracy"),
    ("dead", "die", "dying", "died"),
    ("learn", "train", "progress"),
)
_MEANINGS: Final = {word: group[0] for group in _SYNONYMS for word in group}
_IGNORED: Final = frozenset(
    word_list(
        "a an and are at be but does for from get gets go goes have i in is it its my of on or our "
        "so than that the then there to too very was when why with will model run training"
    )
)
_ENDINGS: Final = ("ing", "ed", "es", "s", "e")

_MOST: Final = 8
# The weights of words in the name and the title, in the first paragraph, and elsewhere.
_IN_HEADING, _IN_MEANING, _IN_TEXT = 6.0, 2.0, 1.0


def search(query: str, headings: Mapping[str, str], pages: Mapping[str, str]) -> list[str]:
    """Return the names of the pages that match a query, the best first.

    A page with more of the words comes first, then one that has rare words in its name or title.

    Args:
        query: words in any form.
        headings: the name and title of each page.
        pages: the Markdown text of each page.
    """
    meanings = _meanings(query)
    words = {name: _weights(headings[name], pages[name]) for name in pages}
    counts = Counter(word for weights in words.values() for word in weights)
    scores: dict[str, tuple[int, float]] = {}
    for name, weights in words.items():
        matched = [word for word in meanings if word in weights]
        worth = sum(weights[word] * math.log(1 + len(pages) / counts[word]) for word in matched)
        # A limit, such as learning.climb, is a detail of the findings that use it.
        scores[name] = (len(matched), worth / 2 if re.match(r"[a-z_]+\.", name) else worth)
    most_matches = max((count for count, _ in scores.values()), default=0)
    # A name that is misspelled has no blank.
    needed = len(meanings) / 2 if " " in query.strip() else len(meanings)
    if not meanings or most_matches < needed:
        return []
    best = sorted(
        (name for name, (count, _) in scores.items() if count == most_matches),
        key=lambda name: -scores[name][1],
    )
    return best[:_MOST]


def _weights(heading: str, page: str) -> dict[str, float]:
    """Return the weight of each word of a page."""
    _, _, text = page.partition("\n## ")
    meaning = text.partition("\n## ")[0]
    weights = dict.fromkeys(_meanings(text), _IN_TEXT)
    weights |= dict.fromkeys(_meanings(meaning), _IN_MEANING)
    return weights | dict.fromkeys(_meanings(heading), _IN_HEADING)


def _meanings(text: str) -> set[str]:
    """Return the meanings of the words of a text."""
    words = re.findall(r"[a-z]+\d*|\d+", text.lower())
    return {_meaning(word) for word in words if word not in _IGNORED}


def _meaning(word: str) -> str:
    """Return the meaning of a word, which is its own beginning if it has no synonyms."""
    if word in _MEANINGS:
        return _MEANINGS[word]
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2:
            # Stems may have lost an e or doubled their last letter: decreasing, dropped.
            forms = (stem, f"{stem}e", stem[:-1] if stem[-1] == stem[-2] else stem)
            meaning = next((_MEANINGS[form] for form in forms if form in _MEANINGS), None)
            return meaning or stem
    return word
