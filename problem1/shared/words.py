"""Numbers in sentences."""

from collections.abc import Iterable


def span(values: Iterable[float], form: str = ".2f") -> str:
    """'0.11 to 0.19', or '1.00' if both ends read the same."""
    values = list(values)
    low, high = number(min(values), form), number(max(values), form)
    return low if low == high else f"{low} to {high}"


def number(value: float, form: str = ".2f") -> str:
    """`format`, without the sign of a zero: '-0.00' would be another word on another processor."""
    text = format(value, form)
    return text if any(digit in text for digit in "123456789") else text.lstrip("+-")


def listing(names: Iterable[str]) -> str:
    """'a, b and c'; 'none' if there are none."""
    names = list(names)
    if len(names) < 2:
        return names[0] if names else "none"
    return f"{', '.join(names[:-1])} and {names[-1]}"
