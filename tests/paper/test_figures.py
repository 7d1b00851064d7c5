"""Pictures of the paper's figures: what they show is what the records say, and what is missing is said."""

import dataclasses
import io

import numpy as np
import pytest
from matplotlib.text import Text

from hamq.control.statistics import bootstrap_interval, interquartile_mean
from hamq.paper import figure1, figure2, figure3, figure4
from hamq.paper.drawing import FONT, NUM_RESAMPLES, Series, column, final, over, summary, verdict
from hamq.paper.evidence import number
from hamq.paper.records import Group, read_all, write
from tests.paper.posed import CONSTANT_LOSS, diverged, record, records_of

FIGURES = (figure1, figure2, figure3, figure4)
NAMES = [
    *("fig1a", "fig1bc-text", "fig1bc-caption", "fig1d", "fig2", "fig2-gradients"),
    *("fig3-literal", "fig3-corrected", "fig3-ours", "fig4-literal", "fig4-corrected", "fig4-ours", "fig4-gradients"),
]
NOTE = "quick run: 3 seeds"
TASK = "cart_double_pendulum"


@pytest.fixture(scope="module")
def records():
    return records_of(dict.fromkeys(group for figure in FIGURES for group in figure.GROUPS))


@pytest.fixture(scope="module")
def pictures(records):
    return {picture.name: picture for figure in FIGURES for picture in figure.pictures(records, NOTE)}


def panels(picture):
    """Without the colour bars, in rows."""
    return [axes for axes in picture.figure.axes if axes.get_subplotspec() is not None and axes.get_label() != "<colorbar>"]


def grid(picture):
    found = panels(picture)
    spec = found[0].get_subplotspec().get_gridspec()
    return np.array(found).reshape(spec.nrows, spec.ncols)


def lines(panel):
    """Drawn data by colour; caps of intervals and levels have other markers."""
    return {line.get_color(): line for line in panel.lines if line.get_marker() in ("s", "o", "^", "D")}


def stacked(runs, name):
    return np.array([run.curve[name] for run in runs], float)


def said(picture):
    return [text.get_text() for panel in panels(picture) for text in (*panel.texts, panel.title)]


def test_names_and_titles(pictures):
    assert list(pictures) == NAMES
    assert [figure.TITLE.partition(":")[0] for figure in FIGURES] == ["Figure 1", "Figure 2", "Figure 3", "Figure 4"]


def test_groups_are_those_that_exist():
    for figure in FIGURES:
        assert len(set(figure.GROUPS)) == len(figure.GROUPS)
        tables = [group for group in figure.GROUPS if not group.method.startswith(("dqn", "ddpg"))]
        assert not [group for group in tables if group.method == "exhaustive" and group.variant == "ours"]
        assert not [group for group in tables if "-" in group.method and group.variant != "ours"]
        assert not [group for group in tables if group.method == "one"]
    deep = [group for group in figure4.GROUPS if group.method.startswith(("dqn", "ddpg"))]
    assert len(deep) == 4 * 2 * (2 + 2 + 4)


def test_convergence_shows_the_interquartile_mean_and_its_interval(pictures, records):
    for i, variant in enumerate(("literal", "corrected", "ours")):
        for j, task in enumerate(figure2.TASKS):
            panel = grid(pictures["fig2"])[i, j]
            assert panel.get_yscale() == "log"
            for method, band in zip(("hmc", "iid"), panel.collections, strict=True):
                runs = records[Group(task, variant, method)]
                line = lines(panel)[{"hmc": "#0072B2", "iid": "#D55E00"}[method]]
                np.testing.assert_allclose(line.get_xdata(), runs[0].curve["iteration"])
                np.testing.assert_allclose(line.get_ydata(), interquartile_mean(stacked(runs, "frobenius")))
                low, high = bootstrap_interval(stacked(runs, "frobenius"), num=NUM_RESAMPLES)
                corners = band.get_paths()[0].vertices[:, 1]
                assert corners.min() == pytest.approx(low.min()) and corners.max() == pytest.approx(high.max())


def test_losses_are_drawn_where_they_were_evaluated(pictures, records):
    loss = grid(pictures["fig1a"])[0, 1]
    runs = records[Group(TASK, "corrected", "hmc")]
    values, line = stacked(runs, "policy_loss"), lines(loss)["#E69F00"]
    seen = np.isfinite(values[0])
    assert 0 < seen.sum() < len(seen)
    np.testing.assert_allclose(line.get_xdata(), np.array(runs[0].curve["iteration"])[seen])
    np.testing.assert_allclose(line.get_ydata(), interquartile_mean(values[:, seen]))
    assert CONSTANT_LOSS in [line.get_ydata()[0] for line in loss.lines if line.get_color() == "0.4"]


def test_ladders_show_what_runs_ended_with_against_their_cost(pictures, records):
    for row, name in enumerate(("frobenius", "policy_loss")):
        panel = grid(pictures["fig2-gradients"])[row, 0]
        line = lines(panel)["#0072B2"]
        np.testing.assert_allclose(line.get_xdata(), [4e5, 1e6, 4e6])
        groups = [Group("pendulum", "ours", method) for method in ("hmc-400k", "hmc-1M", "hmc")]
        ends = [interquartile_mean([run.final[name] for run in records[group]]) for group in groups]
        np.testing.assert_allclose(line.get_ydata(), ends)
        assert panel.get_xscale() == panel.get_yscale() == "log"


def test_error_against_samples_is_part_of_its_maximum(pictures, records):
    runs = records[Group("acrobot", "literal", "dqn-hmc")]
    line = lines(grid(pictures["fig4-literal"])[1, 3])["#0072B2"]
    values = stacked(runs, "frobenius") ** 2
    np.testing.assert_allclose(line.get_ydata(), interquartile_mean(values / values.max(axis=1, keepdims=True)))
    np.testing.assert_allclose(line.get_xdata(), runs[0].curve["samples"])
    # What spends all at once is drawn where it ended, for each of its budgets.
    line = lines(grid(pictures["fig1d"])[1, 0])["#0072B2"]
    np.testing.assert_allclose(line.get_xdata(), [4e5, 7e5, 1.4e6])
    middle = records[Group(TASK, "ours", "hmc-7M")]
    parts = [run.final["frobenius"] / max(run.curve["frobenius"]) for run in middle]
    assert line.get_ydata()[1] == pytest.approx(interquartile_mean(parts))


def test_maps_show_the_actions_and_mark_the_differences(pictures, records):
    for variant in ("literal", "corrected", "ours"):
        column = grid(pictures[f"fig3-{variant}"])[:, 1]
        exhaustive = records[Group("double_integrator", "corrected" if variant == "ours" else variant, "exhaustive")]
        hmc, iid = (records[Group("double_integrator", variant, method)] for method in ("hmc", "iid"))
        maps = [runs[0].maps["plane"] for runs in (exhaustive, hmc, iid)]
        for panel, part in zip(column, maps, strict=False):
            np.testing.assert_array_equal(np.asarray(panel.images[0].get_array()), np.array(part.actions).T)
            assert panel.images[0].get_extent() == pytest.approx(
                [-3.75, 3.75, -8 / 3, 8 / 3]
            )  # half a cell beyond the nodes
        for panel, part in zip(column[3:], maps[1:], strict=True):
            np.testing.assert_array_equal(np.asarray(panel.images[0].get_array()), np.array(part.given_up).T)
            marked = {(round(x, 9), round(y, 9)) for x, y in panel.collections[0].get_offsets()}
            apart = np.argwhere(np.array(part.actions) != np.array(maps[0].actions))
            assert marked == {(round(part.x[i], 9), round(part.y[j], 9)) for i, j in apart}
            assert f"{len(apart) / 20:.0%} differ" in panel.get_title()


def test_slices_of_figure_1_are_not_mixed_up(pictures, records):
    for name in ("text", "caption"):
        rows = grid(pictures[f"fig1bc-{name}"])
        part = records[Group(TASK, "corrected", "hmc")][0].maps[name]
        np.testing.assert_array_equal(np.asarray(rows[1, 1].images[0].get_array()), np.array(part.actions).T)
        np.testing.assert_array_equal(np.asarray(rows[1, 2].images[0].get_array()), np.array(part.given_up).T)
        assert part.hold in pictures[f"fig1bc-{name}"].caption


def test_captions_hold_the_numbers(pictures, records):
    ends = [summary(records[Group("cartpole", "corrected", method)], final("frobenius")) for method in ("hmc", "iid")]
    assert f"cartpole {ends[0]} against {ends[1]} (" in pictures["fig2"].caption
    assert f"[{number(ends[0].low)}, {number(ends[0].high)}]" in str(ends[0])
    assert "of 3 seeds" in pictures["fig2"].caption
    loss = summary(records[Group(TASK, "ours", "hmc")], final("policy_loss"))
    assert f"policy loss {loss} (best constant action 0.75)" in pictures["fig1a"].caption
    maps = [records[Group("pendulum", "literal", method)][0].maps["plane"] for method in ("iid", "exhaustive")]
    num = np.sum(np.array(maps[0].actions) != np.array(maps[1].actions))
    assert (
        f"IID differs in {num} of 20 cells and gives up {np.mean(maps[0].given_up):.2g}" in pictures["fig3-literal"].caption
    )
    # 400,000 gradients of ours are enough for the error and the loss of both others, which spent 5·10⁹.
    assert pictures["fig2-gradients"].caption.count("ours no worse in both with 1/12,500 of them") == 8
    assert (
        "by Q* and the best constant action of its own law (literal: point; corrected: cell; ours: cell)"
        in pictures["fig2"].caption
    )
    assert all("Not run" not in picture.caption for picture in pictures.values())


def test_races_name_what_each_line_needs(pictures, records):
    panel = grid(pictures["fig4-corrected"])[0, 0]
    found = {name: lines(panel)[colour] for name, colour in (("exhaustive", "#000000"), ("HMC", "#0072B2"))}
    level = 1.05 * max(line.get_ydata()[-1] for line in found.values())
    costs = {name: line.get_xdata()[line.get_ydata() <= level][0] for name, line in found.items()}
    expected = f"inverted pendulum {level:.2g}: exhaustive {number(costs['exhaustive'])}, HMC {number(costs['HMC'])}"
    assert expected in pictures["fig4-corrected"].caption


def test_a_dip_on_the_way_is_not_an_arrival():
    heights = np.array([1.0, 0.1, 0.5, 0.2, 0.2])
    series = Series(np.arange(1.0, 6.0), heights, heights, heights)
    assert series.settled_at(0.2) == 4 and series.settled_at(1.0) == 1 and series.settled_at(0.1) is None


def test_the_best_constant_action_of_each_law_has_the_colour_of_its_variant(records):
    group = Group(TASK, "literal", "hmc")
    other = [dataclasses.replace(run, final=run.final | {"constant_action_loss": 2.0}) for run in records[group]]
    loss = grid(figure1.pictures(records | {group: other})[0])[0, 1]
    levels = {line.get_ydata()[0]: line.get_color() for line in loss.lines if line.get_marker() == "None"}
    assert levels == {2.0: "#D55E00", CONSTANT_LOSS: "#E69F00"}


@pytest.mark.parametrize("name", NAMES)
def test_labels_and_note(pictures, name):
    figure, rows = pictures[name].figure, grid(pictures[name])
    assert all(panel.get_xlabel() for panel in rows[-1]) and all(panel.get_ylabel() for panel in rows[:, 0])
    bars = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert all(bar.get_xlabel() for bar in bars) and bool(bars) == ("fig3" in name or "bc" in name)
    assert NOTE in [text.get_text() for text in figure.texts]
    assert bool(figure.legends) == (not bars)


# One of each layout: the others differ from them in their data only. Curves are laid out alike, and so are maps.
@pytest.mark.parametrize(
    "name",
    [
        *("fig1bc-text", "fig2"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("fig1a", "fig1d", "fig2-gradients", "fig3-ours", "fig4-ours")
        ),
    ],
)
def test_no_letter_is_too_small_or_beyond_the_page(pictures, name):
    figure = pictures[name].figure
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    assert min(text.get_fontsize() for text in texts) >= FONT
    own = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    of_panels = [
        text for axes in figure.axes for text in (axes.title, axes.xaxis.label, axes.yaxis.label) if text.get_text()
    ]
    page = figure.bbox.padded(1)
    for text in own + of_panels:
        box = text.get_window_extent()
        assert page.contains(box.x0, box.y0) and page.contains(box.x1, box.y1), text
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    assert not any(a.overlaps(b) for i, a in enumerate(titles) for b in titles[:i])


@pytest.mark.parametrize("figure", FIGURES)
def test_nothing_run_is_said_in_every_panel(figure):
    for picture in figure.pictures({}):
        for panel in panels(picture):
            assert [text.get_text() for text in panel.texts] == ["not run"]
        assert "Nothing was run" in picture.caption
        assert not picture.figure.texts  # no note


def test_what_is_missing_is_said(records):
    gone = [Group("cartpole", "literal", "iid"), Group("pendulum", "ours", "hmc-400k"), Group("acrobot", "corrected", "hmc")]
    rest = {group: runs for group, runs in records.items() if group not in gone}
    first, second = figure2.pictures(rest)
    assert grid(first)[0, 2].get_title() == "cartpole\nIID not run"
    assert grid(first)[1, 3].get_title() == "HMC not run"
    assert grid(second)[0, 0].get_title() == "inverted pendulum\nhmc-400k not run"
    assert "Not run: literal iid on cartpole; corrected hmc on acrobot." in first.caption
    assert "ours hmc-400k on inverted pendulum" in second.caption
    assert len(lines(grid(second)[0, 0])["#0072B2"].get_xdata()) == 2
    _, corrected, ours = figure3.pictures(rest)
    assert "not run" in said(corrected) and "not run" not in said(ours)


def test_runs_that_diverged_are_left_out_and_counted(records):
    group, lost = Group("pendulum", "literal", "hmc"), Group("cartpole", "literal", "iid")
    runs = records[group]
    spoilt = records | {group: [diverged(runs[0]), *runs[1:]], lost: [diverged(run) for run in records[lost]]}
    picture = figure2.pictures(spoilt)[0]
    shown = lines(grid(picture)[0, 0])["#0072B2"].get_ydata()
    np.testing.assert_allclose(shown, interquartile_mean(stacked(runs[1:], "frobenius")))
    assert "1 of 3 runs of literal hmc on inverted pendulum; 3 of 3 runs of literal iid on cartpole" in picture.caption
    assert grid(picture)[0, 2].get_title() == "cartpole\nIID diverged"


def test_seeds_that_stopped_early_are_compared_where_all_were(records):
    runs = records[Group("pendulum", "ours", "hmc")]
    short = dataclasses.replace(runs[0], curve={name: values[:5] for name, values in runs[0].curve.items()})
    series = over([short, *runs[1:]], "iteration", column("frobenius"))
    assert not isinstance(series, str)
    np.testing.assert_allclose(series.middle, interquartile_mean(stacked(runs, "frobenius")[:, :5]))


def test_a_loss_of_0_is_seen(records):
    group = Group("pendulum", "ours", "hmc")
    perfect = [dataclasses.replace(run, final=run.final | {"policy_loss": 0.0}) for run in records[group]]
    panel = grid(figure2.pictures(records | {group: perfect})[1])[1, 0]
    assert panel.get_yscale() == "symlog"
    assert lines(panel)["#0072B2"].get_ydata()[-1] == 0 >= panel.get_ylim()[0]


def test_one_seed_has_no_interval():
    alone = records_of(figure2.GROUPS, num_seeds=1)
    for picture in figure2.pictures(alone):
        assert "One seed, so no interval" in picture.caption
        assert "[" not in picture.caption.replace("undecided", "")


def test_verdicts():
    group = Group("pendulum", "literal", "hmc")
    runs = [record(group, seed) for seed in range(8)]
    worse = [dataclasses.replace(run, final=run.final | {"frobenius": 3 * run.final["frobenius"]}) for run in runs]
    of = final("frobenius")
    assert verdict(runs, worse, of, ("HMC", "IID")).startswith("HMC lower, ratio in [0.")
    assert verdict(worse, runs, of, ("HMC", "IID")).startswith("IID lower, ratio in [")
    assert verdict(runs, runs, of, ("HMC", "IID")).startswith("no difference seen")
    assert verdict(runs[:1], worse, of, ("HMC", "IID")) == "undecided"


def test_pictures_are_the_same_from_the_files(records, pictures, tmp_path):
    for group in figure2.GROUPS:
        for run in records[group]:
            write(tmp_path, run)
    again = figure2.pictures(read_all(tmp_path), NOTE)[0]
    for before, after in zip(panels(pictures["fig2"]), panels(again), strict=True):
        assert lines(before) and lines(before).keys() == lines(after).keys()
        for colour, line in lines(before).items():
            np.testing.assert_allclose(lines(after)[colour].get_ydata(), line.get_ydata(), rtol=1e-5)
    stored = io.BytesIO()
    again.figure.savefig(stored, format="svg")
    assert b"</svg>" in stored.getvalue()
