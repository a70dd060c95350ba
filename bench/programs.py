"""Programs of any length."""

from __future__ import annotations


def flat(operators: int) -> str:
    """One block with a chain of so many operators, one a line."""
    kinds = ("•<=W", "⊕<-BC(b)", "GELU", "LN(g, b)", "⊕<-X_0")
    lines = [
        f"    X_{i} -> {kinds[i % len(kinds)]} : X_{i + 1} [B, D]" for i in range(operators - 1)
    ]
    return "\n".join(
        [
            "dim B, D = 64",
            "block Flat(X_0 [B, D]) -> Y [B, D] {",
            "    param W [D, D], b [D] = zeros, g [D] = ones",
            *lines,
            f"    X_{operators - 1} -> GELU : Y",
            "}",
            "",
        ]
    )


def deep(layers: int) -> str:
    """One block of ten operators, repeated."""
    chain = " -> ".join(["•<=W", "GELU"] * 5)
    return f"""\
dim B, D = 64, N_L = {layers}
block Layer(X [B, D]) -> Y [B, D] {{
    param W [D, D]
    X -> {chain} : Y
}}
block Deep(X [B, D]) -> Y [B, D] {{
    X -> N_L × Layer as layers : Y
}}
"""
