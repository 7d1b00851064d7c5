"""How numbers look in the tables of the terminal and of the page."""

HEAD = [
    "comparison",
    "peer",
    "ours: first / run / CPU s",
    "peer: first / run / CPU s",
    "times faster, wall",
    "times faster, CPU",
]


def number(value: float) -> str:
    """Three significant digits, thousands with commas."""
    if value != value:
        return "–"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size and size < 1e-3:
        return f"{value:.1e}"
    return f"{value:.3g}"


def cell(value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)


def ratio(low_median_high: list[float]) -> str:
    low, median, high = low_median_high
    return f"{number(median)} [{number(low)}, {number(high)}]"


def seconds(side: dict) -> str:
    return " / ".join(number(side[key]) for key in ("first_s", "wall_s", "cpu_s"))


def comparison(row: dict) -> list[str]:
    """One line under HEAD."""
    return [row["name"], row["peer"], seconds(row["ours"]), seconds(row["theirs"]), ratio(row["wall"]), ratio(row["cpu"])]
