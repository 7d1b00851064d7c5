"""What is made, what is made again, and who makes it."""

import dataclasses

import pytest

from hamq.cli.commands.paper import FIGURES
from hamq.paper import plan
from hamq.paper.plan import FULL, QUICK, Job, carry_out, require_scale
from hamq.paper.records import Group, RecordError
from hamq.runs.storage import Lock


def job(path, made):
    def make(told):
        made.append(path.name)
        path.write_text("{}")

    return Job(path.stem, (path,), make)


def test_finished_runs_are_not_made_again(tmp_path):
    made = []
    jobs = [job(tmp_path / name, made) for name in ("a.json", "b.json", "c.json")]
    (tmp_path / "b.json").write_text("{}")
    assert carry_out(jobs) == [] and made == ["a.json", "c.json"]
    assert carry_out(jobs) == [] and made == ["a.json", "c.json"]


def test_a_group_is_done_when_all_its_seeds_are(tmp_path):
    made, paths = [], (tmp_path / "seed-0.json", tmp_path / "seed-1.json")
    paths[0].write_text("{}")
    group = Job("group", paths, lambda told: made.append(paths[1].write_text("{}")))
    carry_out([group])
    carry_out([group])
    assert len(made) == 1 and group.is_done


def test_an_interrupted_plan_goes_on(tmp_path):
    made = []

    def stop(told):
        raise KeyboardInterrupt

    first, last = job(tmp_path / "a.json", made), job(tmp_path / "c.json", made)
    with pytest.raises(KeyboardInterrupt):
        carry_out([first, Job("b", (tmp_path / "b.json",), stop), last])
    assert made == ["a.json"]
    carry_out([first, job(tmp_path / "b.json", made), last])
    assert made == ["a.json", "b.json", "c.json"]


def test_two_processes_share_a_folder(tmp_path):
    made = []
    jobs = [job(tmp_path / name, made) for name in ("a.json", "b.json")]
    held = Lock(tmp_path, ".a.lock")
    assert carry_out(jobs) == [jobs[0]] and made == ["b.json"]
    held.release()
    assert carry_out(jobs) == [] and made == ["b.json", "a.json"]


def test_progress_is_told_of_what_is_made(tmp_path):
    heard = []
    (tmp_path / "a.json").write_text("{}")
    jobs = [job(tmp_path / name, []) for name in ("a.json", "b.json", "c.json")]
    carry_out(jobs, lambda job: heard.append(job.title), is_over=lambda: heard == ["b"])
    assert heard == ["b"] and not (tmp_path / "c.json").exists() and not list(tmp_path.glob(".*.lock"))


def test_the_full_scale_has_the_seeds_that_were_asked_for():
    assert FULL.seeds >= 10 and FULL.high_seeds >= 10 and FULL.deep_seeds >= 5 and FULL.note == ""
    assert QUICK.note.startswith("quick run: 2 seeds")
    assert FULL.of(Group("pendulum", "literal", "hmc")) == (10, 200)
    assert QUICK.of(Group("cart_double_pendulum", "literal", "hmc")) == (QUICK.high_seeds, QUICK.high_iterations)
    assert QUICK.of(Group("cart_double_pendulum", "ours", "hmc")) == (QUICK.high_seeds, 200)
    assert FULL.of(Group("pendulum", "literal", "dqn-hmc"))[0] == 5


def test_every_figure_has_its_jobs(tmp_path):
    assert list(FIGURES) == [*plan.FIGURES, *plan.STUDIES]
    jobs = plan.plan(list(FIGURES), tmp_path, FULL)
    titles = [job.title for job in jobs]
    assert len(set(titles)) == len(titles)
    for task in ("pendulum", "double_integrator", "cartpole", "acrobot"):
        for variant in ("literal", "corrected", "ours"):
            for method in ("hmc", "iid"):
                assert f"{task}, {variant}, {method}, seed 9" in titles
            for method in ("dqn-hmc", "dqn-exhaustive", "ddpg-hmc", "ddpg-exhaustive"):
                assert f"{task}, {variant}, {method}" in titles
    assert "cart_double_pendulum, literal, hmc, seed 9" in titles and "rates" in titles


def test_a_folder_has_one_scale(tmp_path):
    require_scale(tmp_path, QUICK)
    require_scale(tmp_path, dataclasses.replace(QUICK, seeds=7))
    with pytest.raises(RecordError, match=r"another scale \(iterations 30 there, 200 asked for.*--out"):
        require_scale(tmp_path, FULL)
