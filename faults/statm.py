"""What this process occupies, as Linux counts it in pages."""

import resource
from pathlib import Path


def address_space() -> int:
    """Bytes that were asked for."""
    return _pages(0)


def resident() -> int:
    """Bytes that are in memory."""
    return _pages(1)


def _pages(column: int) -> int:
    return int(Path("/proc/self/statm").read_text().split()[column]) * resource.getpagesize()
