"""The bank: all densities by their names, those of a few traits, and those that share a grid."""

from collections.abc import Sequence

from tests.densities.line import LINES
from tests.densities.plane import PLANES
from tests.densities.record import Density
from tests.densities.space import HYPERSPACES, SPACES

BANK: tuple[Density, ...] = (*LINES, *PLANES, *SPACES, *HYPERSPACES)
BY_NAME = {density.name: density for density in BANK}


def named(names: Sequence[str]) -> list[Density]:
    """The densities with these names; an unknown one is named with all that there are."""
    for name in names:
        if name not in BY_NAME:
            raise ValueError(f"the bank has no density {name!r}; it has {', '.join(BY_NAME)}.")
    return [BY_NAME[name] for name in names]
