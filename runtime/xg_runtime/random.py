"""Keys: 64-bit seeds derived from a seed and words, equal on every machine and Python.

    fold(seed, *words)   the key of `words` under `seed`; fold(fold(s, a), b) == fold(s, a, b)
    uniform(key)         a number in [0, 1) from a key

The mixing is the finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
generators", 2014); a string enters as its FNV-1a hash over UTF-8. It is the definition generated
code uses for its masks and initial weights. Data order and the dropout seed of a step are keys of
(seed, purpose, step), so a resumed run needs no generator state, only its step.
"""

from typing import Final

_MASK: Final = 2**64 - 1
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


def fold(seed: int, *words: int | str) -> int:
    """Return the key of `words` under `seed`, in [0, 2⁶⁴); integers count modulo 2⁶⁴.

    The first word is the purpose, a string: it keeps the keys of two uses apart.

    >>> hex(fold(0, "batch", 1))
    '0xf51ff1242f91edf1'
    """
    key = seed & _MASK
    for word in words:
        value = _fnv1a(word) if isinstance(word, str) else word & _MASK
        key = _mix(_mix(key) ^ value)
    return key


def uniform(key: int) -> float:
    """Return the top 53 bits of `key` as a float64 in [0, 1)."""
    return (key >> 11) * 2.0**-53


def _mix(z: int) -> int:
    """Return a bijective scramble of 64 bits: each input bit flips half of the output bits."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def _fnv1a(text: str) -> int:
    """Return the 64-bit FNV-1a hash of `text` in UTF-8."""
    hashed = _FNV_OFFSET
    for byte in text.encode():
        hashed = ((hashed ^ byte) * _FNV_PRIME) & _MASK
    return hashed
