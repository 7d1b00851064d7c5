"""What mkdocs is told to do with formulas and docstrings."""

import importlib.util
from types import ModuleType

import pytest

from tests.pages import ROOT


def hook(name: str) -> ModuleType:
    """A file of docs/hooks/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "hooks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def as_markdown():
    return hook("docstrings").as_markdown


def test_prose_stays_prose(as_markdown):
    text = "Q* and V* of `a*b*c`, x_i and y_i, [S, A](not a link), r < 1."
    assert as_markdown(text) == r"Q\* and V\* of `a*b*c`, x\_i and y\_i, \[S, A\](not a link), r \< 1."


def test_lines_of_a_name_and_a_text_become_a_list(as_markdown):
    text = "Distances.\n\nsup             max |Q − Q*|\nfirst, second   two of them,\n                explained\n\nThe end."
    listed = "- `sup`: max |Q − Q\\*|\n- `first`, `second`: two of them, explained"
    assert as_markdown(text) == f"Distances.\n\n{listed}\n\nThe end."


def test_formulas_that_stand_apart_stay(as_markdown):
    assert as_markdown("With\n\n    |T̂Q − Q*| ≤ w,\n\nso.") == "With\n\n    |T̂Q − Q*| ≤ w,\n\nso."


def test_signature_of_a_module_without_an_init():
    import griffe

    code = "class HMC(Base):\n    '''Draws.'''\n    num: int = eqx.field(static=True)\n    size: float | None = None\n"
    code += "    walls: str = eqx.field(static=True, default='logit')\n    _hidden: int = 0\n"
    with griffe.temporary_visited_module(code) as module:
        hook("docstrings").PlainDocstrings().on_object(obj=module["HMC"])
        found = module["HMC"].docstring.value
    fields = "    num: int,\n    size: float | None = None,\n    walls: str = 'logit',\n"
    assert found == f"```python\nHMC(\n{fields})\n```\n\nDraws."


def test_tex_becomes_mathml_with_its_number_beside_it():
    convert = hook("formulas").on_page_content
    inline = convert('<p>with <span class="arithmatex">\\(a &lt; b^2\\)</span></p>')
    assert inline.startswith('<p>with <span class="formula"><math') and 'display="inline"' in inline
    assert "<msup><mi>b</mi><mn>2</mn></msup>" in inline and "&#x0003C;" in inline and "amp" not in inline
    block = convert('<div class="arithmatex">\\[\nx = 1 \\tag{6, 8}\n\\]</div>')
    assert block.endswith("</math><span>(6, 8)</span></div>") and 'display="block"' in block
    assert "6" not in block.split("<span>")[0]
    assert convert("<code>$HOME</code>") == "<code>$HOME</code>"
