"""Rows that the machine makes, which the shipped examples learn from, in sizes of their own."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = dict[str, NDArray[Any]]
Generator: TypeAlias = np.random.Generator


def marked_numbers(draw: Generator, count: int, length: int = 8) -> Arrays:
    """Numbers of which two are marked, and the sum of these."""
    numbers, marks = draw.random((count, length)), np.zeros((count, length))
    for row in marks:
        row[draw.choice(length, 2, replace=False)] = 1
    return {"X": np.stack([numbers, marks], -1), "t": (numbers * marks).sum(-1)}


def stripes(draw: Generator, count: int, side: int = 12) -> Arrays:
    """Pictures of noisy stripes: lying, standing, slanted."""
    t = draw.integers(0, 3, count)
    down, right = np.mgrid[:side, :side]
    ways = np.stack([down, right, (down + right) / np.sqrt(2)])[t]
    phase = draw.uniform(0, 2 * np.pi, (count, 1, 1))
    pictures = np.sin(1.6 * ways + phase) + 0.3 * draw.normal(size=ways.shape)
    return {"I": pictures[:, None], "t": t}


DIGITS = ("111101101101111", "010110010010111", "111001111100111", "111001111001111")


def noisy_digits(draw: Generator, count: int, steps: int = 20) -> Arrays:
    """Digits of 5 x 3 points in pictures of 8 x 8, each with noise and its step."""
    shapes = np.array([[int(point) for point in digit] for digit in DIGITS]).reshape(-1, 5, 3)
    pictures = -np.ones((count, 8, 8, 1))
    for picture, shape in zip(pictures, shapes[draw.integers(0, len(DIGITS), count)], strict=True):
        top, left = draw.integers(0, 3), draw.integers(0, 5)
        picture[top : top + 5, left : left + 3, 0] = 2 * shape - 1
    noise = draw.normal(size=pictures.shape)
    return {"x": pictures, "n": draw.integers(0, steps, count), "epsilon": noise}


def communities(draw: Generator, count: int, nodes: int = 10, width: int = 6) -> Arrays:
    """Graphs of two groups, dense within each: of a group neighbors say more than one node."""
    t = draw.integers(0, 2, (count, nodes))
    same: NDArray[np.bool_] = t[:, :, None] == t[:, None]
    drawn: NDArray[np.bool_] = draw.random(same.shape) < np.where(same, 0.8, 0.1)
    edges = drawn & (np.arange(nodes)[:, None] < np.arange(nodes))
    seen = edges | edges.transpose(0, 2, 1) | np.eye(nodes, dtype=bool)
    signs = (2 * t - 1)[..., None] * np.linspace(0.2, 0.8, width)
    w = np.ones_like(t)
    w[:, 0] = 0
    return {
        "X": signs + draw.normal(size=signs.shape), "A": seen.astype(np.int64), "t": t, "w": w
    }  # fmt: skip


def waves(draw: Generator, count: int, length: int = 24) -> Arrays:
    """Waves of three lengths, beside noise."""
    t = draw.integers(0, 3, count)
    angle = np.array([0.3, 0.8, 1.9])[t][:, None] * np.arange(length)
    angle = angle + draw.uniform(0, 2 * np.pi, (count, 1))
    parts = [np.sin(angle), np.cos(angle), draw.normal(size=angle.shape)]
    return {"I": np.stack(parts, -1), "t": t}


def sequences(
    draw: Generator, count: int, *, step: int, length: int = 8, words: int = 11
) -> Arrays:
    """Texts that count by `step`, from any word on."""
    ids = (draw.integers(0, words, (count, 1)) + step * np.arange(length + 1)) % words
    return {"ids": ids[:, :-1], "t": ids[:, 1:]}


def answers(draw: Generator, count: int, length: int = 6, words: int = 16) -> Arrays:
    """Questions of two words with two answers each; the one that repeats a word is preferred."""
    question = draw.integers(2, words, (count, 2))
    random = draw.integers(2, words, (count, length - 1))
    rows: Arrays = {}
    for side, answer in (("w", np.repeat(question[:, :1], length - 1, 1)), ("l", random)):
        text = np.concatenate([question, answer], 1)
        keep = np.broadcast_to(np.arange(length) > 0, (count, length)).astype(np.int64).copy()
        keep[::2, -1] = 0  # a shorter answer
        rows |= {f"ids_{side}": text[:, :-1], f"t_{side}": text[:, 1:], f"keep_{side}": keep}
    return rows


def heat(draw: Generator, count: int) -> Arrays:
    """Points where the heat equation holds, and points at the start with their temperature."""
    rows = {name: np.pi * draw.random((count, 1)) for name in ("x", "x_0")}
    rows |= {"t": draw.random((count, 1)), "t_0": np.zeros((count, 1))}
    return {**rows, "u_0": np.sin(rows["x_0"])}


def clouds(draw: Generator, count: int, width: int = 32) -> Arrays:
    """Two clouds of points, and where between two of them a gradient is taken."""
    real, fake = draw.normal(1.0, 0.5, (count, width)), draw.normal(0.0, 0.5, (count, width))
    return {"real": real, "fake": fake, "e": draw.random(count)}


def repeated(draw: Generator, count: int, length: int = 4, width: int = 16) -> Arrays:
    """Vectors to reproduce."""
    rows = draw.normal(0.0, 1.0, (count, length, width))
    return {"X": rows, "t": rows}


def sectors(draw: Generator, count: int, width: int = 16, classes: int = 4) -> Arrays:
    """Vectors with the place of the largest of their first numbers."""
    rows = draw.normal(0.0, 1.0, (count, width))
    return {"X": rows, "t": rows[:, :classes].argmax(-1)}
