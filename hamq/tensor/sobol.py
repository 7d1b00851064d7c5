"""Scrambled Sobol' points: averages of a smooth function over n of them err by nearly 1/n, over random ones by 1/√n.

Point i of axis k is the sum in GF(2) of the direction numbers v_j at the bits j of i. A random lower triangular matrix of
bits and a random shift make every point uniform and keep the even spread of all of them (Matoušek's scramble).
"""

import numpy as np
from jaxtyping import Float

BITS = 30
POLYNOMIALS = (
    (0, 0, ()),
    (1, 0, (1,)),
    (2, 1, (1, 3)),
    (3, 1, (1, 3, 1)),
    (3, 2, (1, 1, 1)),
    (4, 1, (1, 1, 3, 3)),
    (4, 4, (1, 3, 5, 13)),
    (5, 2, (1, 1, 5, 5, 17)),
    (5, 4, (1, 1, 5, 5, 5)),
    (5, 7, (1, 1, 7, 11, 19)),
)
"""Degree, coefficients and first direction numbers of each axis (Joe and Kuo)."""
MAX_DIMENSION = len(POLYNOMIALS)


def sobol(count: int, dimension: int, seed: int) -> Float[np.ndarray, "d n"]:
    """`count` points in (0, 1)^d, one column each."""
    generator = np.random.default_rng(seed)
    index = np.arange(count)
    points = np.empty((dimension, count))
    for axis in range(dimension):
        numbers = _scrambled(_direction_numbers(*POLYNOMIALS[axis]), generator)
        bits = np.full(count, generator.integers(2**BITS))
        for j in range(max(1, int(count - 1).bit_length())):
            bits ^= np.where(index >> j & 1, numbers[j], 0)
        points[axis] = (bits + 0.5) / 2**BITS
    return points


def spread_points(count: int, dimension: int, seed: int) -> Float[np.ndarray, "d n"]:
    """Scrambled Sobol' points where they are known, else uniform numbers in pairs u, 1 − u."""
    if dimension <= MAX_DIMENSION:
        return sobol(count, dimension, seed)
    half = np.random.default_rng(seed).uniform(size=(dimension, -(-count // 2)))
    return np.concatenate([half, 1 - half], axis=1)[:, :count]


def _direction_numbers(degree: int, coefficients: int, first: tuple[int, ...]) -> list[int]:
    if not degree:
        return [1 << (BITS - 1 - j) for j in range(BITS)]
    numbers = [m << (BITS - 1 - j) for j, m in enumerate(first)]
    for j in range(degree, BITS):
        number = numbers[j - degree] ^ (numbers[j - degree] >> degree)
        for k in range(1, degree):
            if coefficients >> (degree - 1 - k) & 1:
                number ^= numbers[j - k]
        numbers.append(number)
    return numbers


def _scrambled(numbers: list[int], generator: np.random.Generator) -> list[int]:
    """Each number times one random lower triangular matrix of bits with ones on its diagonal."""
    digits = np.asarray([[number >> (BITS - 1 - i) & 1 for i in range(BITS)] for number in numbers])
    matrix = np.tril(generator.integers(2, size=(BITS, BITS)), -1) + np.eye(BITS, dtype=np.int64)
    places = 1 << np.arange(BITS - 1, -1, -1)
    return (digits @ matrix.T % 2 @ places).tolist()
