"""The certificate of a finished run: written beside its result, read back, and never shown for another table.

    certificate.json   what was found, the sentence, the SHA-256 of the table it is about, the versions that certified
    certificate.npz    lower, upper [S, A] and policy_loss [S]; a statement about a part of the pairs has none of them

A run that goes on loses its certificate. One that an older version left behind is about another table: its SHA-256 says so,
and it counts as none.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.certificates.certificate import Certificate, PartialCertificate
from hamq.certificates.methods import METHODS, Method
from hamq.errors import damaged
from hamq.runs.encoding import encode_arrays, encode_json, is_number, plain
from hamq.runs.manifest import package_versions
from hamq.runs.storage import BOUNDS, CERTIFICATE
from hamq.solution import Cost

SAID = ("sentence", "is_vacuous", "method", "confidence", "draws", "seconds")
SAID_OF_ALL = ("error", "known_before", "draws_needed")
SAID_OF_A_PART = ("share", "residual", "num_pairs")
TABLES = ("lower", "upper", "policy_loss")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RunCertificate:
    """What `Certificate` or `PartialCertificate` holds, without the problem; what only the other one has is None.

    `versions` are those of the packages that certified, which may be others than solved.
    """

    sentence: str
    is_vacuous: bool
    method: Method
    confidence: float
    draws: float
    cost: Cost
    seconds: float
    versions: dict[str, str]
    error: float | None = None
    known_before: float | None = None
    draws_needed: int | None = None
    lower: Float[np.ndarray, "S A"] | None = None
    upper: Float[np.ndarray, "S A"] | None = None
    policy_loss: Float[np.ndarray, " S"] | None = None
    share: float | None = None
    residual: float | None = None
    num_pairs: int | None = None

    @property
    def is_bound(self) -> bool:
        """Whether it bounds |Q − Q*| by a number of use."""
        return self.error is not None and not self.is_vacuous

    @property
    def worst_loss(self) -> float | None:
        return None if self.policy_loss is None else float(self.policy_loss.max())

    @property
    def mean_loss(self) -> float | None:
        return None if self.policy_loss is None else float(self.policy_loss.mean())

    def errors(self, q: Float[np.ndarray, "S A"]) -> Float[np.ndarray, " S"]:
        """The certified bound of |Q − Q*| in every state, the largest over the actions: max_a max(upper − Q, Q − lower)."""
        assert self.lower is not None and self.upper is not None
        return np.maximum(self.upper - q, q - self.lower).max(axis=1)

    def facts(self) -> dict[str, Any]:
        """Everything but the tables, for machines."""
        said = {name: getattr(self, name) for name in (*SAID, *SAID_OF_ALL, *SAID_OF_A_PART)}
        return said | {"worst_loss": self.worst_loss, "mean_loss": self.mean_loss, "cost": self.cost._asdict()}

    def __repr__(self) -> str:
        return f"RunCertificate({self.method}: {self.sentence})"


def fingerprint(q: Float[np.ndarray, "S A"]) -> str:
    """SHA-256 of the numbers of a table and of its shape."""
    return hashlib.sha256(repr((q.shape, q.dtype.str)).encode() + np.ascontiguousarray(q).tobytes()).hexdigest()


def encode_certificate(certificate: Certificate | PartialCertificate, q: Float[np.ndarray, "S A"]) -> dict[str, bytes]:
    """The files of the certificate of this table, by name."""
    is_whole = isinstance(certificate, Certificate)
    names = (*SAID, *(SAID_OF_ALL if is_whole else SAID_OF_A_PART))
    said = {name: getattr(certificate, name) for name in names} | {"cost": certificate.cost._asdict()}
    said |= {"of": "all pairs" if is_whole else "a part", "q": fingerprint(q), "versions": package_versions()}
    files = {CERTIFICATE: encode_json(plain(said, "certificate"))}
    if isinstance(certificate, Certificate):
        files[BOUNDS] = encode_arrays({name: np.asarray(getattr(certificate, name), np.float64) for name in TABLES})
    return files


def certificate_of(folder: Path, found: Mapping[str, Any], q: Float[np.ndarray, "S A"] | None) -> RunCertificate | None:
    """The certificate among the decoded files of a run whose table is `q`; None if there is none, or it is of another."""
    if q is None or CERTIFICATE not in found:
        return None
    said = found[CERTIFICATE]
    if said.get("q") != fingerprint(q):
        return None
    is_whole = said.get("of") == "all pairs"
    names = (*SAID, *(SAID_OF_ALL if is_whole else SAID_OF_A_PART))
    if wrong := [name for name in (*names, "cost", "versions") if name not in said or not _is_sound(name, said[name])]:
        raise damaged(folder, CERTIFICATE, f"its {wrong[0]} is {said.get(wrong[0])!r:.60}")
    fields = {name: said[name] for name in (*names, "versions")} | {"cost": Cost(**said["cost"])}
    return RunCertificate(**fields, **(_tables(folder, found.get(BOUNDS, {}), q.shape) if is_whole else {}))


def _is_sound(name: str, value: Any) -> bool:
    """Whether certificate.json may have this value by this name: what is read is shown."""
    if name in ("sentence", "is_vacuous"):
        return isinstance(value, str if name == "sentence" else bool)
    if name == "method":
        return isinstance(value, str) and value in METHODS
    if name in ("cost", "versions"):
        is_named = isinstance(value, dict) and (name == "versions" or set(value) == set(Cost._fields))
        return is_named and all(type(entry) is (str if name == "versions" else int) for entry in value.values())
    if name in ("draws_needed", "num_pairs"):
        return (value is None and name == "draws_needed") or (type(value) is int and is_number(value))
    return is_number(value) and (name != "confidence" or 0 < value <= 1)


def _tables(folder: Path, arrays: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> dict[str, Any]:
    kinds = {name: (array.shape, array.dtype.type) for name, array in arrays.items()}
    if kinds != {"lower": (shape, np.float64), "upper": (shape, np.float64), "policy_loss": (shape[:1], np.float64)}:
        raise damaged(folder, BOUNDS, f"its arrays are not {', '.join(TABLES)} of every state")
    return dict(arrays)
