"""Programs as text, for people who follow one through the passes (``xg show --as ir``).

One line per step, in order; ``%`` marks values without a name of the author's. Works after every
pass, and `xg.passes.ir_text.reader` makes the same program of the text again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from xg.ir.graph import Graph, Program
from xg.ir.plan import Entry, Layout, Plan
from xg.ir.tensor import Sizes
from xg.passes.ir_text.block_labels import label, usual_label
from xg.passes.ir_text.operators import Vocabulary
from xg.passes.ir_text.print_graph import GraphPrinter, quoted, spell_key
from xg.passes.ir_text.value_names import ValueNames


def spell_program(program: Program, passes: Collection[str] = ("forward", "backward")) -> str:
    """Every graph, callees first, and its backward graph; or only one of these `passes`."""
    vocabulary = Vocabulary.of(program)
    parts = ["\n".join(_head(program, vocabulary))]
    for key, graph in program.graphs.items():
        names = ValueNames()
        printer = GraphPrinter(graph, names, vocabulary)
        lines = {"forward": [*printer.lines(), *_known_of(graph, program)]}
        if key in program.backwards:
            printer = GraphPrinter(program.backwards[key], names, vocabulary)
            lines["backward"] = list(printer.lines())
        parts += ["\n".join(lines[each]) for each in lines if each in passes]
    return "\n\n".join(parts) + "\n"


def _head(program: Program, vocabulary: Vocabulary) -> Iterator[str]:
    yield f"program {spell_key(program.entry)}"
    yield from _sizes_line(program.main.sizes, Sizes())
    if program.numbers:
        yield f"  numbers {_counts(program.numbers)}"
    if program.mesh:
        yield f"  mesh {_counts(program.mesh)}"
    if program.lengths:
        yield f"  padded {_counts(program.lengths)}"
    yield from (f"  define {quoted(text)}" for text in vocabulary.definitions)
    if program.plan is not None:
        yield from _plan_lines(program.plan)


def _known_of(graph: Graph, program: Program) -> Iterator[str]:
    """The lines behind the steps of a graph, which hold for its backward pass too."""
    block = label(graph.block_id)
    if block != usual_label(graph.key):
        yield f"  block {block}"
    if graph.title != graph.key:
        yield f"  title {quoted(graph.title)}"
    yield from _sizes_line(graph.sizes, program.main.sizes)


def _sizes_line(sizes: Sizes, usual: Sizes) -> Iterator[str]:
    """The line of sizes, where they are not the usual ones."""
    if sizes == usual:
        return
    definitions = ", ".join(f"{name} = {dim}" for name, dim in sizes.definitions.items())
    tables: Mapping[str, Iterable[str]] = {
        "defaults": [f"{name} = {value}" for name, value in sizes.defaults.items()],
        "mesh": sizes.mesh,
        "local": sorted(sizes.local),
    }
    rest = "".join(f" {word} {', '.join(said)}" for word, said in tables.items() if said)
    yield f"  sizes {{{definitions}}}{rest}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {count}" for name, count in counts.items())


# ---- plans --------------------------------------------------------------------------------------


def _plan_lines(plan: Plan) -> Iterator[str]:
    """A plan, and what it says of each value."""
    axes = [axis if count is None else f"{axis} = {count}" for axis, count in plan.mesh.items()]
    over = f" over {', '.join(axes)}" if axes else ""
    yield f"  plan {quoted(plan.name)} {quoted(plan.title)}{over}"
    yield from (f"    {_entry(entry)}" for entry in plan.entries)
    for each in plan.schedules:
        counts = f"parts {each.parts or 0} turns {each.turns}"
        yield f"    schedule {label(each.block)} {quoted(each.name)} {counts}"


def _entry(entry: Entry) -> str:
    use = f" use {_layout(entry.use)}" if entry.use is not None else ""
    rest = f" {_layout(entry.rest)}" if entry.rest is not None else ""
    lies = f"{quoted('.'.join(entry.path))}{rest}{use}"
    over = ", ".join(sorted(entry.over))
    word = "pad" if entry.pads else entry.memory
    memory = f" memory {word}" if word else ""
    return f"entry {label(entry.block)} {lies} over {over} in {quoted(entry.plan)}{memory}"


def _layout(layout: Layout) -> str:
    """Like a file's, but mesh axes are apart from the size: ``[D_ff|N_T, ..]``."""
    parts = [
        ("_" if dim is None else str(dim)) + (f"|{'*'.join(cuts)}" if cuts else "")
        for dim, cuts in zip(layout.dims, layout.cuts, strict=True)
    ]
    return "[" + ", ".join([*parts, *([".."] if layout.open else [])]) + "]"
