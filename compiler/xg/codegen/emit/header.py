"""The head of a generated module: what it is, what it imports, names of types, constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from xg import __version__
from xg.codegen.emit import collectives
from xg.codegen.emit.dialect import Dialect
from xg.codegen.emit.line_breaks import indented, wrapped
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.names import safe, spell_symbol
from xg.codegen.emit.text import WIDTH
from xg.ir.graph import Graph, Value
from xg.ir.tensor import TensorType

# What generated code may take from the standard library by its name.
STANDARD: Final = {
    "collections.abc": ("Iterator", "Mapping"),
    "contextlib": ("AbstractContextManager", "nullcontext"),
    "typing": ("Any", "NamedTuple"),
}
CHANGE: Final = "Change the diagram, not this file."
TABLES: Final = {
    "ParamTable": "dict[str, tuple[tuple[int, ...], float | str]]",
    "StartTable": "dict[str, tuple[tuple[int, ...], float | str | tuple[float, float]]]",
    "CacheTable": "dict[str, tuple[tuple[int, ...], str]]",
}


def header(plan: ModulePlan, dialect: Dialect, code: str) -> str:
    """The lines before the code: imports and names that it mentions."""
    aliases = _aliases({**dialect.aliases, **TABLES}, code)
    imports = dialect.header.format(
        standard=_standard(aliases + code), ranks=collectives.imports(code)
    )
    prelude = dialect.prelude.strip("\n") if plan.kernels else ""
    constants = "\n".join(
        f"{spell_symbol(name)} = {value}" for name, value in sorted(plan.constants.items())
    )
    parts = [
        _docstring(plan, dialect),
        "from __future__ import annotations",
        imports.strip("\n"),
        aliases,
        prelude,
        constants,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def section(title: str) -> str:
    """The heading of a part of a module."""
    return f"# ---- {title} ".ljust(WIDTH, "-")


def _docstring(plan: ModulePlan, dialect: Dialect) -> str:
    """The source, the version of the compiler, and the signature of the entry block."""
    graph, mesh = plan.program.main, plan.program.mesh
    what = "forward and backward pass" if plan.saves else "step"
    file = safe(graph.span.source.name.rsplit("/", 1)[-1])
    inputs = ", ".join(_spelled(graph, value) for value in graph.inputs)
    pairs = zip(graph.output_names, graph.output_types, strict=True)
    outputs = ", ".join(f"{name} {type_}" for name, type_ in pairs)
    function = "forward" if plan.saves else "step"
    ranks = " × ".join(f"{name} = {size}" for name, size in mesh.items())
    padded, known = plan.program.lengths.items(), plan.program.all_numbers
    lines = [
        f'"""{safe(graph.title)}: {what} in {dialect.title}.',
        "",
        *wrapped(f"Compiled by xg {__version__} from {file}, block {graph.block}. {CHANGE}", 0),
        *([f"Every rank of the mesh {ranks} runs it, on its shards."] if mesh else []),
        *(f"{name} = {length} is padded with zeros to {known[name]}." for name, length in padded),
        "",
        *indented(wrapped(f"{function}({inputs}) -> {outputs}", 4, 4)),
        '"""',
    ]
    return "\n".join(lines)


def _spelled(graph: Graph, value: Value) -> str:
    type_ = TensorType(graph.shape(value), graph.types[value].range)
    return f"{value.name} {value.declared or type_}"


def _aliases(aliases: Mapping[str, str], code: str) -> str:
    """Those that the code mentions, or another that it mentions."""
    used: dict[str, str] = {}
    for name, text in reversed(list(aliases.items())):
        if any(_mentions(each, name) for each in (code, *used.values())):
            used[name] = text
    return "\n".join(f"{name} = {text}" for name, text in reversed(list(used.items())))


def _standard(code: str) -> str:
    """The imports of what the code mentions of the standard library."""
    uses_math = "math." in code and re.search(r"(?<![\w.])math\.", code)
    lines = ["import math"] if uses_math else []
    for module, names in STANDARD.items():
        used = [name for name in names if _mentions(code, name)]
        lines += [f"from {module} import {', '.join(used)}"] if used else []
    return "\n".join(lines)


def _mentions(code: str, name: str) -> bool:
    """Whether code has a name as a whole word; a pattern would look at every letter."""
    at = code.find(name)
    while at >= 0:
        around = code[max(at - 1, 0) : at], code[at + len(name) : at + len(name) + 1]
        if not any(char == "_" or char.isalnum() for char in around):
            return True
        at = code.find(name, at + 1)
    return False
