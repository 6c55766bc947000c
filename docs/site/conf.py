"""Settings of Sphinx for the site: ``make site``."""

import stabdiag

project = "stabdiag"
version = release = stabdiag.__version__
language = "en"

extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 4  # as GitHub has them
myst_enable_extensions = ["html_image"]
copybutton_prompt_text = "$ "

templates_path = ["templates"]
html_theme = "furo"
html_title = "stabdiag"
html_static_path = ["static"]
html_js_files = ["accessible.js"]
html_extra_path = []
html_copy_source = False
html_show_copyright = False
html_show_search_summary = False  # summaries are fetched, which pages opened from disk may not
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def setup(app):
    """Give the captions of the sidebar the level that their role asks for."""

    def levelled(app, page, template, context, doctree):
        tree = context.get("furo_navigation_tree", "")
        context["furo_navigation_tree"] = tree.replace('"heading"', '"heading" aria-level="2"')

    app.connect("html-page-context", levelled, priority=900)
