"""TeX between dollars as MathML, which browsers draw by themselves: no script, no font, no network."""

import html
import re

from latex2mathml.converter import convert

ARITHMATEX = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
"""What pymdownx.arithmatex leaves of $…$ and $$…$$."""
TAG = re.compile(r"\\tag\{([^}]*)\}")
"""The number of an equation."""


def on_page_content(content: str, **_) -> str:
    """Called by mkdocs with the HTML of each page."""
    return ARITHMATEX.sub(_as_mathml, content)


def _as_mathml(found: re.Match) -> str:
    tag, bracket, tex = found.groups()
    number = TAG.search(tex)
    formula = convert(TAG.sub("", html.unescape(tex)).strip(), display="block" if bracket == "[" else "inline")
    beside = f"<span>({number[1]})</span>" if number else ""
    return f'<{tag} class="formula">{formula}{beside}</{tag}>'
