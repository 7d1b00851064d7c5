"""`--smallest`: sizes with which a script shows that it runs, and measures nothing."""

import argparse
from collections.abc import Mapping
from typing import Any

WORDS = "--smallest"


def add_smallest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(WORDS, action="store_true", help="sizes that only show that it runs")


def shrink(own: dict[str, Any], smallest: Mapping[str, Any]) -> None:
    """Puts the smallest sizes in the place of a script's constants: `shrink(globals(), SMALLEST)`."""
    if unknown := set(smallest) - set(own):
        raise ValueError(f"shrink: the script has no {', '.join(sorted(unknown))}; name its constants.")
    own.update(smallest)
