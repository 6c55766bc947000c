"""The ledger of the rules that judge."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from rules_on_trial import RULES, switched_off  # noqa: E402


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_can_be_switched_off(rule):
    with switched_off([rule]):
        pass


def test_the_page_has_every_rule_and_no_other():
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \*\*(.+?)\*\* \| `(.+?)`", page, re.MULTILINE)
    assert listed == [(rule.name, rule.where) for rule in RULES]
