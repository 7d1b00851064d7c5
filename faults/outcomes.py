"""Results and certificates that nobody would write, signed as the manifest wants it: refused, or read for what they say.

The readers of fuzzing.py, fed with finished runs of which one file is nonsense. What is read must be what the files say, bit
by bit, and a certificate must be of the table beside it: one of another table counts as none.
"""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from faults import posed
from faults.fuzzing import VALUES, Kind, archives, as_json, edited, fuzz_all, jsons, signed
from hamq.runs.certificate import SAID, SAID_OF_A_PART, SAID_OF_ALL, encode_certificate, fingerprint
from hamq.runs.certificate import TABLES as BOUND_NAMES
from hamq.runs.encoding import decode_arrays, decode_json, encode_arrays, encode_json
from hamq.runs.reading import Run
from hamq.runs.storage import BOUNDS, CERTIFICATE, RESULT, TABLES
from hamq.runs.summary import arrays_of, outcome_names, outcome_of
from hamq.solution import History

SOLUTION = posed.solution(History())
FILES = {
    TABLES: encode_arrays(arrays_of(SOLUTION)),
    RESULT: encode_json(outcome_of(SOLUTION) | {"seconds": 1.5, "comparison": None}),
    **encode_certificate(posed.certificate(), posed.Q),
}
"""Of a finished run that was certified."""
TABLE_OF_ANY_KIND = st.sampled_from([posed.Q, posed.Q[:, 0], posed.Q[:2], posed.Q.astype(np.float32)])
ARRAYS = st.one_of(
    edited(FILES[BOUNDS]),
    archives(st.sampled_from([*BOUND_NAMES, "q", "../lower"])),
    st.tuples(*[TABLE_OF_ANY_KIND] * 3).map(lambda tables: encode_arrays(dict(zip(BOUND_NAMES, tables, strict=True)))),
    st.binary(max_size=60),
)


def facts(good: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """JSON as fuzzing.py makes it, or with one field changed: more than one seldom leaves anything to read."""
    changed = st.tuples(st.sampled_from(sorted(good)), VALUES).map(lambda pair: as_json({**good, pair[0]: pair[1]}))
    return st.one_of(jsons(good), changed)


def seen(run: Run) -> str:
    """Whether the certificate was trusted; AssertionError where anything that was read is not what the files say."""
    said = decode_json((run.path / RESULT).read_bytes())
    for name in outcome_names(is_train=False):
        assert repr(getattr(run, name)) == repr(said.get(name)), f"{name} is {getattr(run, name)}"
    assert isinstance(run.result, str) and run.q is not None and run.q.tobytes() == posed.Q.tobytes()
    found = run.certificate
    if found is None:
        return "not trusted"
    said = decode_json((run.path / CERTIFICATE).read_bytes())
    assert said["q"] == fingerprint(run.q), "the certificate is of another table"
    for name in (*SAID, *(SAID_OF_A_PART if found.error is None else SAID_OF_ALL)):
        assert repr(getattr(found, name)) == repr(said[name]), f"{name} is {getattr(found, name)}"
    arrays = {} if found.error is None else decode_arrays((run.path / BOUNDS).read_bytes())
    for name, array in arrays.items():
        assert getattr(found, name).tobytes() == array.tobytes() and len(array) == len(run.q)
    return "read"


KINDS = {
    RESULT: Kind(facts(decode_json(FILES[RESULT])), signed(RESULT, FILES), 3_000, seen),
    CERTIFICATE: Kind(facts(decode_json(FILES[CERTIFICATE])), signed(CERTIFICATE, FILES), 4_000, seen),
    BOUNDS: Kind(ARRAYS, signed(BOUNDS, FILES), 3_000, seen),
}


def main(is_quick: bool = False) -> dict:
    return fuzz_all(KINDS, is_quick)
