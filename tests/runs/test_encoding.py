import io
import math
from pathlib import Path

import hypothesis.extra.numpy as hnp
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hamq.errors import RunError
from hamq.runs import encoding
from hamq.solution import History
from tests.runs.posed import assert_same_arrays

DTYPES = st.one_of(hnp.scalar_dtypes(), hnp.byte_string_dtypes(), hnp.unicode_string_dtypes())
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
NAMES = st.sampled_from(["q", "a/b", "/a", "../a", "file", "allow_pickle", "x", "x.npy", "x.npy.npy", "Größe ψ"])
FLOATS = hnp.arrays(st.sampled_from([np.float64, np.float32, np.float16]), 5)
INTS = hnp.arrays(st.one_of(hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.boolean_dtypes()), 5)
COLUMN_NAMES = st.one_of(st.text("ab ,;\"'ß", min_size=1, max_size=4), st.just("iteration"))
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(NAMES, ARRAYS, max_size=4))
def test_arrays_come_back_bit_for_bit(arrays):
    assert_same_arrays(encoding.decode_arrays(encoding.encode_arrays(arrays)), arrays)


def test_arrays_of_every_layout_come_back():
    arrays = {
        "scalar": np.asarray(-0.0),
        "empty": np.empty((0, 3), np.int8),
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "strided": np.arange(10)[::-3],
        "big-endian": np.arange(3, dtype=">f4"),
        "NaN payload": np.asarray([0x7FF8DEADBEEF0001], np.uint64).view(np.float64),
        "structured": np.zeros(2, [("x", "f4"), ("n", "i8")]),
    }
    assert_same_arrays(encoding.decode_arrays(encoding.encode_arrays(arrays)), arrays)
    assert encoding.encode_arrays(arrays) == encoding.encode_arrays(arrays)


def test_numpy_reads_the_arrays():
    content = encoding.encode_arrays({"q": np.eye(2), "lower/q": np.zeros(3)})
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        assert set(found.files) == {"q", "lower/q"}
        np.testing.assert_array_equal(found["q"], np.eye(2))


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.asarray([None, 1]), "object"),
        (np.zeros(1, [("x", "O")]), "'O'"),
        (np.asarray(jnp.ones(2, jnp.bfloat16)), "bfloat16"),
        (np.asarray(["a"], np.dtypes.StringDType()), "StringDType"),
    ],
)
def test_arrays_that_need_pickle_are_refused(array, dtype):
    with pytest.raises(RunError, match=rf"Checkpoint: momenta has dtype .*{dtype}.* without pickle; convert it"):
        encoding.encode_arrays({"momenta": array})


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800"])
def test_names_that_an_archive_would_change_are_refused(name):
    with pytest.raises(RunError, match="is not a name for an array; use printable characters"):
        encoding.encode_arrays({name: np.zeros(1)})
    with pytest.raises(RunError, match=r"History: .* is not a name for an array"):
        encoding.encode_history(History(**{name: np.zeros(1)}))


def test_jax_arrays_are_refused(as_user):
    with pytest.raises(RunError, match=r"Checkpoint: q is of type ArrayImpl; give a NumPy array, by np\.asarray"):
        encoding.encode_arrays({"q": jnp.zeros(2)})


@settings(max_examples=40)
@given(st.dictionaries(COLUMN_NAMES, st.one_of(FLOATS, INTS), min_size=1, max_size=4))
@example({"count": np.asarray([2**63, 0], np.uint64), "balance": np.asarray([-(2**63), 2**63 - 1])})
def test_history_comes_back_equal(columns):
    found = encoding.decode_history(encoding.encode_history(History(**columns)))
    assert list(found.columns) == list(columns)
    for name, column in columns.items():
        np.testing.assert_array_equal(found[name], column)
        assert (found[name].dtype.kind == "f") == (column.dtype.kind == "f")
        if column.dtype.kind == "f":
            is_number = ~np.isnan(column)
            np.testing.assert_array_equal(np.signbit(found[name])[is_number], np.signbit(column)[is_number])


def test_history_is_a_table_that_people_can_read():
    history = History(iteration=[1, 2], residual=[0.1, np.nan], rank=[3, 4], is_kept=np.asarray([True, False]))
    assert encoding.encode_history(history) == b"iteration,residual,rank,is_kept\n1,0.1,3,True\n2,nan,4,False\n"


@pytest.mark.parametrize("history", [History(), History(iteration=np.empty(0), residual=np.empty(0))])
def test_history_without_rows_comes_back(history):
    found = encoding.decode_history(encoding.encode_history(history))
    assert len(found) == 0 and list(found.columns) == list(history.columns)


@pytest.mark.parametrize(
    "column", [np.zeros((2, 2)), np.asarray(["a", "b"]), np.zeros(2, complex), np.zeros(2, np.longdouble)]
)
def test_columns_that_text_would_change_are_refused(column, as_user):
    with pytest.raises(RunError, match=r"History: column 'change' has shape .* and dtype .*; a column holds one int"):
        encoding.encode_history(History(change=column))


@settings(max_examples=40)
@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_json_comes_back_equal(value):
    found = encoding.decode_json(encoding.encode_json(encoding.plain(value, "config")))
    assert repr(found) == repr(value)


def test_json_keeps_infinities_and_plain_forms():
    value = {"a": (1, np.int64(2)), "b": np.float32(0.1), "c": [math.nan, math.inf, -math.inf]}
    found = encoding.decode_json(encoding.encode_json(encoding.plain(value, "config")))
    assert repr(found) == repr({"a": [1, 2], "b": float(np.float32(0.1)), "c": [math.nan, math.inf, -math.inf]})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"sampler": {"mass": np.zeros(2)}}, r"config\.sampler\.mass is array.* of type ndarray; give numbers, strings"),
        ({"steps": [1, {2}]}, r"config\.steps\[1\] is \{2\} of type set"),
        ({"sampler": {3: "x"}}, r"config\.sampler has the key 3; JSON needs strings"),
    ],
)
def test_what_json_does_not_have_is_refused_by_its_field(value, message):
    with pytest.raises(RunError, match=message):
        encoding.plain(value, "config")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"{"),
        ("config.json", b"\xff"),
        ("history.csv", b""),
        ("history.csv", b"a,b\n1\n"),
        ("history.csv", b"a\nx\n"),
        ("result.npz", b""),
        ("result.npz", b"PK"),
    ],
)
def test_contents_of_another_kind_are_refused_by_the_file(name, content):
    with pytest.raises(RunError, match=rf"{name} of runs/a is damaged: .*; delete the folder or start with --overwrite\."):
        encoding.decode(Path("runs/a"), name, content)
