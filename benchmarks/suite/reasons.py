"""Why a peer is faster where it is: patterns of "part: comparison, peer", the first that fits counts.

A comparison that is slower than a peer and fits none of them fails a test: find out why before it is published.
"""

from fnmatch import fnmatchcase

REASONS = {
    "sampling: HMC, sigmoid walls, autodiff*": (
        "a density that is given as a function may have several modes: beside the trajectories that the peer makes, ours "
        "searches the modes and proposes a jump between them after every trajectory. The gradient is autodiff's for both; "
        "with the jumps switched off ours took a third of its time at d = 2, half of BlackJAX's"
    ),
    "devices: two devices on one CPU*": (
        "the two devices are the same cores, which one device uses already. The draws take as long as on one device; but "
        "each of the 200 iterations, some 2 ms of work at this size, also hands what it found from device to device, and "
        "takes two and a half times as long"
    ),
}


def is_slower(comparison: dict) -> bool:
    """Whether the peer's median is below ours, in wall or in CPU seconds."""
    return min(comparison["wall"][1], comparison["cpu"][1]) < 1


def reason(comparison: dict) -> str | None:
    """Why the peer is faster; None where nobody has said it."""
    subject = f"{comparison['part']}: {comparison['name']}, {comparison['peer']}"
    return next((text for pattern, text in REASONS.items() if fnmatchcase(subject, pattern)), None)
