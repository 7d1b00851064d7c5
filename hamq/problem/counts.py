"""Numbers of states and actions as text: they are Python ints, and 9⁴⁰⁰ of them do not fit a float."""

from decimal import Decimal

LARGEST_FLOAT = 10**300
LONGEST_COUNT = 10**9


def as_power(number: int, digits: int = 2) -> str:
    """`1.48e+38`, of a number of any size."""
    return f"{number if abs(number) < LARGEST_FLOAT else Decimal(number):.{digits}e}"


def as_count(number: int, separator: str = "") -> str:
    """`6561` (`6,561` with a comma as the separator) below 10⁹, `1.48e+38` from there on."""
    return f"{number:{separator}}" if number < LONGEST_COUNT else as_power(number)
