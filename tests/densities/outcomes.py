"""What a capability of the library made of a density: right, warned, refused or WRONG.

right       within the tolerance of the reference, whether or not a warning was given besides
warned      beyond the tolerance, and the answer itself, or a `HamqWarning`, says that it is not to be trusted
refused     a `ValueError`, or an answer that says nothing: a certificate that is vacuous
WRONG       beyond the tolerance without a word; an error that is no refusal; a refusal that blames the reward, which is
            never at fault here; a warning whose remedy is none; or anything but a right answer where the density is benign
"""

import dataclasses
import time
import warnings
from collections.abc import Callable

from hamq.types import HamqWarning
from tests.densities.record import Density

KINDS = ("right", "warned", "refused", "WRONG")
MISLEADING = ("look at the reward", "look at reward")
"""What a refusal may not say: the rewards of the bank are finite everywhere."""
NO_REMEDY = {"solve": "use HMC", "solve_hmc": "use HMC"}
"""What a warning may not advise, by capability: it is what is being used."""


@dataclasses.dataclass(frozen=True)
class Found:
    """What a capability measured: a number, what is allowed, and whether the answer itself says that it is in doubt."""

    number: float
    allowed: float
    is_doubted: bool = False
    is_silent: bool = False
    said: str = ""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One cell of the table of the bank; `said` is the sentence of the library that it rests on."""

    density: str
    capability: str
    kind: str
    number: float | None
    allowed: float | None
    said: str
    seconds: float

    def __str__(self) -> str:
        numbers = "" if self.number is None else f" {self.number:.3g} (allowed {self.allowed:.3g})"
        return f"{self.density}, {self.capability}: {self.kind}{numbers}; {self.said}"


def judge(density: Density, capability: str, measure: Callable[[], Found]) -> Outcome:
    """Runs one capability and says what came of it."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", HamqWarning)
        try:
            found, error = measure(), None
        except Exception as raised:  # whatever is no refusal is an outcome, too
            found, error = None, raised
    seconds = time.perf_counter() - began
    heard = [str(warning.message) for warning in caught if issubclass(warning.category, HamqWarning)]
    kind, said = _verdict(found, error, [sentence for sentence in heard if _is_true(sentence, density, capability)])
    if kind == "WRONG" and found is not None and heard:
        said = f"its remedy is none: {' '.join(dict.fromkeys(heard))} {said}"
    if "benign" in density.traits and kind != "right":
        kind, said = "WRONG", f"benign, and {kind}: {said}"
    numbers = (None, None) if found is None else (float(found.number), float(found.allowed))
    return Outcome(density.name, capability, kind, *numbers, said, seconds)


def _is_true(sentence: str, density: Density, capability: str) -> bool:
    """Whether its remedy is one: smaller steps do not bring a chain over a jump."""
    if "jump" in density.traits and "smaller step_size" in sentence:
        return False
    return not (capability in NO_REMEDY and NO_REMEDY[capability] in sentence)


def _verdict(found: Found | None, error: Exception | None, heard: list[str]) -> tuple[str, str]:
    """(kind, the sentence that it rests on)."""
    if found is None:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        is_refusal = isinstance(error, ValueError) and not any(blame in said for blame in MISLEADING)
        return ("refused" if is_refusal else "WRONG"), said
    said = " ".join([*dict.fromkeys(heard), found.said]).strip()
    if found.is_silent:
        return "refused", said
    if found.number <= found.allowed:  # NaN is not
        return "right", said
    return ("warned" if heard or found.is_doubted else "WRONG"), said
