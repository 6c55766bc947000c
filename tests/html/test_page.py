"""The page as text: its content, and that log text is inert."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

import stabdiag
from stabdiag.formats import render
from stabdiag.scan.overview import make_overview
from tests.conftest import diagnosed
from tests.formats.conftest import renamed
from tests.scan.made import sweep

MARKUP = "</script></style></title><img src=x onerror=alert(1)>\"'><svg onload=alert(2)>"


class CsvBlock(HTMLParser):
    """The elements of a page with their attributes, and the text of its scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.elements = []
        self.inside = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        tag, attributes = self.elements[-1] if self.elements else ("", {})
        if tag in ("script", "style") and data.strip():
            self.inside.append((tag, attributes, data))


def read_data(page):
    """Return the data for the script of a page."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(match[1])


PAGES = {
    "report": lambda: render(diagnosed("spike-persistent-fp16"), "html"),
    "post-mortem": lambda: stabdiag.postmortem(diagnosed("nan-blow-up-fp32"), "html"),
    "scan": lambda: render(make_overview(sweep()), "html", "overview"),
}
every_page = pytest.mark.parametrize("make", PAGES.values(), ids=PAGES)


@every_page
def test_the_policy_allows_only_the_content_of_the_page(make):
    parsed = CsvBlock(make())
    policy = next(
        attributes["content"] or ""
        for tag, attributes in parsed.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    inside = {"script": "", "style": ""}
    for tag, attributes, text in parsed.inside:
        if attributes.get("type") != "application/json":
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            inside[tag] += f" 'sha256-{digest}'"
    assert rules["script-src"] == (inside["script"].strip() or "'none'")
    assert rules["style-src"] == inside["style"].strip()


@every_page
def test_a_page_makes_no_requests_and_has_no_inline_code(make):
    for tag, attributes in CsvBlock(make()).elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "form")
        assert not {"src", "srcset", "style", "action"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")


def test_the_page_has_the_license_of_the_charts():
    page = PAGES["report"]()
    assert "Copyright (c) 2022 Leon Sorokin" in page
    assert "uPlot (v1.6.32)" in page


def test_log_text_is_escaped():
    report = diagnosed("spike-persistent-fp16")
    page = render(renamed(report, MARKUP), "html")
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert MARKUP not in page
    names = json.dumps(read_data(page))
    assert json.dumps(MARKUP)[1:-1] in names
    assert r"abc\u202egnp.exe" in render(renamed(report, "abc\u202egnp.exe\u2066"), "html")


ODD = {
    "NaN at first": {"loss": [float("nan"), 2.0, 1.0]},
    "NaN alone": {"loss": [float("nan")] * 40, "grad_norm": [float("inf")] * 40},
    "negative": {"loss": [-1.0 - step / 100 for step in range(200)]},
    "zero": {"loss": [0.0] * 200, "grad_norm": [0.0] * 199 + [1.0]},
    "one": {"loss": [1.0]},
    "no loss": {"loss_scale": [2.0**16] * 50, "grad_norm": [1.0] * 49 + [float("inf")]},
    "extreme": {"loss": [1e300, 1e-300] * 100, "lr": [0.0] * 200},
    "beyond single precision": {"loss": [2.0] * 99 + [1e30, 1e45, 1e60, 1e75, 1e90]},
}


@pytest.mark.parametrize("values", ODD.values(), ids=ODD)
def test_odd_logs_have_a_page(values):
    steps = list(range(len(next(iter(values.values())))))
    report = stabdiag.diagnose({"step": steps, **values})
    page = render(report, "html")
    assert report.diagnosis.slug in page
    assert read_data(page)["panels"]
    assert report.diagnosis.slug in report._repr_html_()


def test_changed_settings_and_limits_are_marked(runs):
    log = runs / "spike-lr-jump" / "log.jsonl"
    report = stabdiag.diagnose(log, settings={"dtype": "bf16"}, limits={"spike.sigma": 4})
    page = render(report, "html")
    assert page.count("set by a flag") == 1
    assert "spike.sigma is 4 (default 3)" in page
    assert "mean" in page
    assert "spike.sigma is" not in render(stabdiag.diagnose(log), "html")


def test_a_manifest_is_never_said_to_be_missing_above_its_values():
    steps = list(range(300))
    log = {"step": steps, "loss": [3 - step / 300 for step in steps]}
    assert "No manifest found." in render(stabdiag.diagnose(log), "html")
    page = render(stabdiag.diagnose(log, settings={"dtype": "bf16"}), "html")
    assert "No manifest found." not in page
    assert "No manifest file; values from flags." in page
