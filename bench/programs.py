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


def layers(count: int) -> str:
    """One block with so many layers of a transformer written out: attention, then a perceptron."""
    each = range(count)
    vectors = ", ".join(f"g_{i}, γ_{i} [D] = ones, b_{i}, β_{i} [D] = zeros" for i in each)
    matrices = ", ".join(
        f"Q_{i}, K_{i}, V_{i}, O_{i} [D, D], U_{i} [D, F], W_{i} [F, D], c_{i} [F] = zeros"
        for i in each
    )
    return "\n".join(
        [
            "dim B, S, D = 64, F = 256",
            "block Layers(X_0 [B, S, D]) -> Y [B, S, D] {",
            f"    param {vectors}",
            f"    param {matrices}",
            *(
                line
                for i in each
                for line in (
                    f"    X_{i} -> LN(g_{i}, b_{i}) : N_{i}",
                    f"    N_{i} -> •<=K_{i} : k_{i}",
                    f"    N_{i} -> •<=V_{i} : v_{i}",
                    f"    N_{i} -> •<=Q_{i} -> •<=T(k_{i}) -> SM(1/sqrt(D))"
                    f" -> •<=v_{i} -> •<=O_{i} -> ⊕<-X_{i} : M_{i}",
                    f"    M_{i} -> LN(γ_{i}, β_{i}) -> •<=U_{i} -> ⊕<-BC(c_{i}) -> GELU"
                    f" -> •<=W_{i} -> ⊕<-M_{i} : X_{i + 1}",
                )
            ),
            f"    X_{count} -> GELU : Y",
            "}",
            "",
        ]
    )


def placed(layers: int) -> str:
    """So many perceptrons in one block, each cut over the ranks of `N_T` by the plan TP."""
    each = range(layers)
    return "\n".join(
        [
            "dim B = 4, D = 8, F = 12",
            "mesh N_T = 2",
            "block Placed(X_0 [B, D]) -> Y [B, D] {",
            f"    param {', '.join(f'U_{i} [D, F], V_{i} [F, D]' for i in each)}",
            *(f"    X_{i} -> •<=U_{i} -> ReLU -> •<=V_{i} -> ⊕<-X_{i} : X_{i + 1}" for i in each),
            f"    X_{layers} -> GELU : Y",
            "}",
            "plan TP of Placed {",
            *(f"    U_{i} [D, F/N_T]\n    V_{i} [F/N_T, D]" for i in each),
            "}",
            "",
        ]
    )


def chosen(words: int) -> str:
    """The same below a step that so many words are the choice of, under products of plans too."""
    names = ("GELU", "ReLU", "tanh", "sigmoid", "SiLU")[:words]
    below = placed(40).replace(
        "mesh N_T = 2", f"mesh N_D = 2, N_T = 2\noption act = {' | '.join(names)}"
    )
    return f"""{below}
block Chosen(X [B, D]) -> Y [B, D] {{
    X -> Placed as body -> act : Y
}}
plan DP of Chosen {{
    X [B/N_D, D]
}}
plan DP_TP = DP × TP
"""


_HEAD = "dim B, D = 8\n"


def chain(count: int) -> str:
    """A block of one chain."""
    nodes = ("ReLU", "GELU", "⊕<-X", "S")
    steps = (f"-> {nodes[i % 4]} : H_{i} [B, D]" for i in range(count))
    return _HEAD + _net("X " + "\n      ".join(steps))


def blocks(count: int) -> str:
    """Blocks, each called once."""
    text = (
        "block B_{0}(X [B, D]) -> Y [B, D] {{\n    param W [D, D]\n    X -> •<=W -> ⊕<-X : Y\n}}\n"
    )
    calls = "\n      ".join(f"-> B_{i}" for i in range(count))
    return _HEAD + "".join(map(text.format, range(count))) + _net("X " + calls)


def calls(count: int) -> str:
    """One block, a recurrent cell, called again and again with its own result."""
    cell = (
        "block Cell(X, H [B, D]) -> N [B, D] {\n"
        "    param W [D, D], U [D, D], b [D] = zeros\n"
        "    X -> •<=W : Q [B, D]\n"
        "    H -> •<=U -> ⊕<-Q -> ⊕<-BC(b) -> sigmoid : G [B, D]\n"
        "    G -> ⊙<-H : N\n}\n"
    )
    rows = (
        f"X, {f'H_{i - 1}' if i else 'X'} -> Cell as c_{i} : H_{i} [B, D]" for i in range(count)
    )
    return _HEAD + cell + _net("\n    ".join(rows) + f"\n    H_{count - 1}")


def _net(chain: str) -> str:
    return f"block Net(X [B, D]) -> Y [B, D] {{\n    {chain}\n      -> ReLU : Y\n}}\n"
