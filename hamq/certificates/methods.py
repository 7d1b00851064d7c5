"""The methods of `hamq.certify`, the strongest first. A method by draws is an entry here and a file with its `EVIDENCE`.

Nothing heavy is imported: the command line lists the methods in its help.
"""

from typing import Literal, NamedTuple

Method = Literal["exact", "guaranteed", "asymptotic"]


class Words(NamedTuple):
    """How a method is told, and where it is.

    how     what a page says beside its name
    sure    what a confidence rests on; empty where nothing is drawn
    home    the module of its evidence (`evidence.py`); empty where nothing is drawn
    """

    how: str
    sure: str = ""
    home: str = ""


METHODS: dict[Method, Words] = {
    "exact": Words("by sums over all next states"),
    "guaranteed": Words(
        "by independent draws, whatever their law", "for independent draws of any law", "hamq.certificates.independent"
    ),
    "asymptotic": Words(
        "by chains, as their number grows", "asymptotic in the number of chains", "hamq.certificates.chains"
    ),
}


def strength(method: Method) -> int:
    """0 for the strongest."""
    return list(METHODS).index(method)
