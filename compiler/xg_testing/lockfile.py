"""Read and write `xg.lock`: one TOML file beside the diagrams, one section for each block.

Sections are sorted, and each fact has a line of its own, so that two branches merge.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from hashlib import sha256
from math import isfinite
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np

from xg import ops
from xg.codegen.backend import backends
from xg.cost.communication import sent
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.driver import Program, compile_project
from xg.figures import dot
from xg.frontend.project import Project
from xg.frontend.typed import concerning, root_blocks
from xg.ir.walk import join
from xg.verify.gradient_proof import sample
from xg.verify.plan_proof import select_proofs
from xg_pages.diff.compare import Edge as DiffEdge
from xg_pages.diff.compare import Making, called_graphs, edges, otherwise
from xg_runtime import files
from xg_runtime.errors import FileError
from xg_runtime.module import Array

# Compile a block into the facts that a lock keeps: its edges, numbers, plans and code.
#
# Nothing here depends on comments, layout, names of files, or the release of xg.


SEED: Final = 0
DIGITS: Final = 10  # of a number in a lock
ZERO: Final = 1e-12  # of the largest norm: what is below is rounding
ENTERS: Final = ("input", "param")


@dataclass(frozen=True, slots=True)
class LockedEdge:
    """A forward tensor of a block, and how it is made; `is_named` if the file names it.

    The name of a tensor in a called block of another file has the way to it, ``attn.Q``.
    """

    name: str
    shape: str
    maker: str
    making: Making
    is_named: bool = True

    def __str__(self) -> str:
        """Write the edge as one line of a lock."""
        spelled = [f"{key}={_quote(text)}" for key, text in self.making.arguments]
        spelled += [f"formula={self.making.formula}"] if self.making.formula else []
        settings = f" {{{'; '.join(spelled)}}}" if spelled else ""
        operands = ", ".join(_mark_name(*each) for each in self.making.operands)
        if self.maker in ENTERS:
            follows = f" <- {operands}" if operands else ""
            return f"{self.maker} {self.name} {self.shape}{follows}{settings}"
        name = _mark_name(self.name, self.is_named)
        return f"{name} {self.shape} = {self.maker}({operands}){settings}"


def _mark_name(name: str, is_named: bool) -> str:
    return name if is_named else f"%{name}"


def _unmark_name(text: str) -> tuple[str, bool]:
    return text.removeprefix("%"), not text.startswith("%")


def _quote(text: str) -> str:
    """Escape the separators in a value."""
    return text.replace("\\", "\\\\").replace(";", "\\;").replace("}", "\\}").replace("\n", "\\n")


_ENTERS = re.compile(r"(input|param) (\S+) (\[.*?\])(?: <- (\S+))?(?: \{(.*)\})?")
_MADE = re.compile(r"(\S+) (\[.*?\]) = (.*?)\((.*?)\)(?: \{(.*)\})?")


def parse_edge(line: str) -> LockedEdge:
    """Read one line of a lock; raises ValueError for a line that is not an edge."""
    if found := _ENTERS.fullmatch(line):
        maker, name, shape, operands, settings = found.groups()
    elif found := _MADE.fullmatch(line):
        name, shape, maker, operands, settings = found.groups()
    else:
        raise ValueError(f"no edge: {line}")
    pairs = [part.partition("=") for part in re.split(r"(?<!\\); ", settings)] if settings else []
    values = {key: re.sub(r"\\(.)", _unescape, text) for key, _, text in pairs}
    formula = values.pop("formula", "")
    taken = tuple(_unmark_name(each) for each in operands.split(", ")) if operands else ()
    making = Making(taken, tuple(values.items()), formula)
    bare, is_named = _unmark_name(name)
    return LockedEdge(bare, shape, maker, making, is_named)


def _unescape(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


@dataclass(frozen=True, slots=True)
class BlockLock:
    """The record of one block in its default choice of options.

    `numbers` has for every output and gradient its norm and its product with a fixed wave, at
    `sizes`, from seed 0, in float64. `plans` has the collectives of each plan, one per line. `code`
    has a hash for each kind of output.
    """

    block: str
    file: str
    edges: tuple[LockedEdge, ...]
    outputs: tuple[str, ...]
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    numbers: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    plans: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    code: Mapping[str, str] = field(default_factory=dict[str, str])


def lock_project(project: Project) -> Iterator[BlockLock]:
    """Record every block of a file; raises DiagnosticError if it has errors."""
    plans = _plans(project)
    free = root_blocks(project.main)
    for block in project.main.blocks:
        name = block.name.name
        program = compile_project(project, name, concerning(project, name, {}))
        yield lock_block(project, program, plans.get(name, {}), whole=name in free)


def lock_block(
    project: Project, program: Program, plans: Mapping[str, tuple[str, ...]], *, whole: bool
) -> BlockLock:
    """Record one block; code is written of the blocks that no other calls."""
    one = program.on_one_device
    sizes, numbers = _numbers(project, one.graphs.main.block)
    main = one.graphs.main
    file = PurePath(project.main.span.source.name).name
    return BlockLock(
        main.block,
        file,
        tuple(_edges(project, one)),
        main.output_names,
        sizes,
        numbers,
        plans,
        dict(_hashes(program, whole=whole)),
    )


def _edges(project: Project, program: Program) -> Iterator[LockedEdge]:
    """Yield the forward edges of the block, and of called blocks that other files define."""
    own = {block.span for block in project.main.blocks}
    foreign = {
        where
        for where, graph in called_graphs(program.graphs)
        if where == "" or graph.span not in own
    }
    for edge in edges(program.graphs).values():
        if edge.direction == "forward" and edge.where in foreign:
            yield _edge(edge)


def _edge(edge: DiffEdge) -> LockedEdge:
    """Return an edge without facts that its shape repeats or that belong to a release of xg.

    The formula of a shipped operator is its own business; that of an operator of the file is the
    user's.
    """
    arguments = tuple(
        (key, text) for key, text in edge.making.arguments if text != edge.dims and key != "operand"
    )
    formula = "" if ops.find(edge.maker) else edge.making.formula
    making = Making(edge.making.operands, arguments, formula)
    name = join(edge.where, edge.name)
    return LockedEdge(name, edge.dims, edge.maker, making, edge.value.name is not None)


def _numbers(
    project: Project, block: str
) -> tuple[Mapping[str, int], Mapping[str, tuple[float, float]]]:
    """Compute a block once; a block without gradients has numbers of its outputs only."""
    sizes, outputs, gradients = sample(project, block, concerning(project, block, {}), SEED)
    results = {**outputs, **{f"d{name}": array for name, array in gradients.items()}}
    found = {name: summary(array) for name, array in results.items()}
    least = ZERO * max((norm for norm, _ in found.values() if isfinite(norm)), default=0.0)
    return sizes, {name: pair if pair[0] > least else (0.0, 0.0) for name, pair in found.items()}


def summary(array: Array) -> tuple[float, float]:
    """Reduce an array to its norm, and its product with a wave that tells its elements apart."""
    flat = np.asarray(array, np.float64).reshape(-1)
    wave = np.cos(np.arange(flat.size, dtype=np.float64))
    return _round(float(np.linalg.norm(flat))), _round(float(flat @ wave))


def _round(x: float) -> float:
    return float(f"{x:.{DIGITS}g}")


def _plans(project: Project) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the collectives of every block under every plan of the file."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for block, plan, settings in select_proofs(project, None, None, {}):
        program = compile_project(project, block, settings, plan)
        found.setdefault(block, {})[plan or "as written"] = tuple(collectives(program))
    return found


def collectives(program: Program) -> Iterator[str]:
    """Yield one line for each collective of a parallel program, with its elements around a ring."""
    for each in sent(program.distributed, "float32"):
        of = f" of {each.of}" if each.of else ""
        what = f"{each.direction} {each.glyph} over {each.over} in {each.block}{of}"
        yield f"{what}: {each.formula('ring')}"


def _hashes(program: Program, *, whole: bool) -> Iterator[tuple[str, str]]:
    """Yield each kind of output with a hash of its content."""
    for view in program.views:
        yield f"figure.{view}", _hash(dot(program.figure(view, legend=False), "light"))
    for name, backend in backends().items() if whole and not program.stages else ():
        if backend.writes(program.graphs):
            yield name, _hash(program.source(name))


def _hash(text: str) -> str:
    return sha256(meaning(text).encode()).hexdigest()[:16]


def meaning(code: str) -> str:
    """Return a module or figure without its header and the lines that quote the diagram."""
    code = re.sub(r"Compiled by xg .*?\n\n", "", code, count=1, flags=re.DOTALL)
    return re.sub(r"^ *# .*\n", "", code, flags=re.MULTILINE)


NAME: Final = "xg.lock"
FORMAT: Final = 1
TOLERANCE: Final = 1e-8  # relative to the norm; numbers are kept to ten digits

# One line for each time that a release changes emitted code or figures without changing what any
# of them computes or shows. A lock that is older reports the lines that it has not seen, once.
EMISSIONS: Final = ("0.3.0: first release with locks",)


@dataclass(frozen=True, slots=True)
class Lock:
    """The blocks of one folder, by file and name; `emission` counts the lines of EMISSIONS."""

    blocks: Mapping[tuple[str, str], BlockLock]
    tolerance: float = TOLERANCE
    emission: int = len(EMISSIONS)

    def find(self, block: BlockLock, present: Iterable[str]) -> BlockLock | None:
        """Return the record of a block, also if its file was renamed: `present` are the files."""
        exact = self.blocks.get((block.file, block.block))
        if exact is not None:
            return exact
        gone = [
            each
            for (file, name), each in self.blocks.items()
            if name == block.block and file not in set(present)
        ]
        return gone[0] if len(gone) == 1 else None


def read_lock(path: Path) -> Lock | None:
    """Read a lock, or return None if there is no such file; raises FileError if it is damaged."""
    if not path.exists():
        return None
    try:
        data = tomllib.loads(files.read(path).decode())
        if data["format"] != FORMAT:
            raise FileError(
                f"{path} has format {data['format']}, and this xg reads {FORMAT}: use the xg that "
                "wrote it, or delete it and write it again: xg lock"
            )
        blocks = [_block(each) for each in data.get("block", [])]
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{path} is damaged ({error}): restore it, or delete it and write it again: xg lock"
        ) from None
    by_key = {(each.file, each.block): each for each in blocks}
    return Lock(by_key, data["tolerance"], data["emission"])


def _block(data: Mapping[str, Any]) -> BlockLock:
    lines = data["program"].strip().splitlines()
    made = [line for line in lines if not line.startswith("return ")]
    outputs = tuple(lines[-1].removeprefix("return ").split(", ")) if len(made) < len(lines) else ()
    numbers = dict(data.get("numbers", {}))
    sizes = numbers.pop("at", {})
    return BlockLock(
        data["name"],
        data["file"],
        tuple(map(parse_edge, made)),
        outputs,
        sizes,
        {name: (float(pair[0]), float(pair[1])) for name, pair in numbers.items()},
        {name: tuple(each) for name, each in data.get("plans", {}).items()},
        data.get("code", {}),
    )


def lock_text(lock: Lock) -> str:
    """Write a lock as text: the same blocks give the same bytes."""
    sections = [_section(lock.blocks[key]) for key in sorted(lock.blocks)]
    head = (
        "# What these diagrams mean. `xg lock` accepts changes, `xg lock --check` reports them.\n"
        f"format = {FORMAT}\nemission = {lock.emission}\ntolerance = {lock.tolerance:g}\n"
    )
    return "\n".join([head, *("\n".join(section) + "\n" for section in sections)])


def write_lock(path: Path, lock: Lock) -> bool:
    """Write a lock if it differs from the file; tell whether it did."""
    data = lock_text(lock).encode()
    if path.exists() and files.read(path) == data:
        return False
    files.write(path, data)
    return True


def _section(block: BlockLock) -> Iterator[str]:
    yield "[[block]]"
    yield f"name = {json.dumps(block.block, ensure_ascii=False)}"
    yield f"file = {json.dumps(block.file, ensure_ascii=False)}"
    yield "program = '''"
    yield from map(str, block.edges)
    yield f"return {', '.join(block.outputs)}"
    yield "'''"
    if block.plans:
        yield "[block.plans]"
        for name, lines in sorted(block.plans.items()):
            yield f"{_key(name)} = ["
            yield from (f"    {json.dumps(line, ensure_ascii=False)}," for line in lines)
            yield "]"
    yield "[block.numbers]"
    sizes = ", ".join(f"{_key(name)} = {size}" for name, size in sorted(block.sizes.items()))
    yield f"at = {{ {sizes} }}" if sizes else "at = {}"
    yield from (f"{_key(name)} = [{a!r}, {b!r}]" for name, (a, b) in block.numbers.items())
    yield "[block.code]"
    yield from (f"{_key(kind)} = {json.dumps(each)}" for kind, each in block.code.items())


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else json.dumps(name, ensure_ascii=False)


# Tell in words what differs between the record of a block and the block as it is now.


FIGURES: Final = "figure."


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences of one block: `meaning` fails a check, `notes` don't.

    `unified` are the lines of both programs as `diff -u` prints them.
    """

    block: str
    file: str
    meaning: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unified: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Return whether the block means what its record says."""
        return not self.meaning

    def lines(self) -> Iterator[str]:
        """Yield the report of one block as people read it."""
        verdict = "as locked" if self.passed else "CHANGED"
        yield f"{self.file}: {self.block}: {verdict}"
        yield from (f"  {line}" for line in (*self.meaning, *self.notes))
        if self.unified:
            yield ""
            yield from (f"  {line}" for line in self.unified)


def changes(lock: Lock, old: BlockLock | None, new: BlockLock) -> Changes:
    """Compare a block with its record, which is None if the lock has none."""
    if old is None:
        return Changes(new.block, new.file, ("is not in the lock",))
    renamed = _find_renames(old, new)
    found = [
        *(
            f"{name} is now {other}: renamed, nothing else changes"
            for name, other in renamed.items()
        ),
        *_edge_changes(_renaming(old.edges, renamed), new.edges),
        *_outputs(_rename_outputs(old.outputs, renamed), new.outputs),
        *_plan_changes(old.plans, new.plans),
        *_number_changes(lock, old, new, renamed),
    ]
    notes: list[str] = []
    kinds = [kind for kind in new.code if old.code.get(kind, new.code[kind]) != new.code[kind]]
    if kinds and not found:
        if lock.emission < len(EMISSIONS):
            notes += [f"{', '.join(kinds)}: written otherwise since {EMISSIONS[-1]}"]
        else:
            found.append(f"{', '.join(kinds)}: the text changed, though the program did not")
    before, after = ([*map(str, each.edges)] for each in (old, new))
    unified = unified_diff(before, after, "locked", "now", lineterm="", n=1)
    return Changes(new.block, new.file, tuple(found), tuple(notes), tuple(unified))


def _edge_changes(old: Sequence[LockedEdge], new: Sequence[LockedEdge]) -> Iterator[str]:
    """Yield what changed in each edge; unnamed ones are matched by their place."""
    pairs = _pairs(old, new)
    before = {each.name: each for each in _renaming(old, pairs)}
    after = {each.name: each for each in new}
    for name, edge in after.items():
        was = before.get(name)
        if was is None:
            yield f"{_shown(edge)} is new: {_making(edge)}"
        elif was != edge:
            yield f"{_shown(edge)} {'; '.join(_edge_change(was, edge))}"
    yield from (
        f"{_shown(each)} is gone: {_making(each)}"
        for name, each in before.items()
        if name not in after
    )


def _edge_change(old: LockedEdge, new: LockedEdge) -> Iterator[str]:
    if old.shape != new.shape:
        yield f"has shape {new.shape}, was {old.shape}"
    if old.maker != new.maker:
        yield f"is now computed by {new.maker}, before by {old.maker}"
    else:
        yield from otherwise(old.making, new.making, new.maker)


def _shown(edge: LockedEdge) -> str:
    return f"{edge.maker} {edge.name}" if edge.maker in ENTERS else edge.name


def _making(edge: LockedEdge) -> str:
    operands = ", ".join(name for name, _ in edge.making.operands)
    return edge.shape if edge.maker in ENTERS else f"{edge.maker}({operands}) {edge.shape}"


def _renaming(some: Sequence[LockedEdge], names: Mapping[str, str]) -> tuple[LockedEdge, ...]:
    """Return edges under other names, as operands too."""

    def named(edge: LockedEdge) -> LockedEdge:
        operands = tuple((names.get(name, name), known) for name, known in edge.making.operands)
        return replace(
            edge,
            name=names.get(edge.name, edge.name),
            making=replace(edge.making, operands=operands),
        )

    return tuple(map(named, some))


def _rename_outputs(names: Sequence[str], other: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(other.get(name, name) for name in names)


def _pairs(old: Sequence[LockedEdge], new: Sequence[LockedEdge]) -> dict[str, str]:
    """Match the unnamed edges of two programs by what makes them, in order."""
    before, after = ([each for each in some if each.maker not in ENTERS] for some in (old, new))
    was_keys, now_keys = ([*map(_signature, some)] for some in (before, after))
    found: dict[str, str] = {}
    taken = {each.name for each in new}
    for tag, i, i_end, j, j_end in SequenceMatcher(None, was_keys, now_keys, False).get_opcodes():
        if tag == "equal" or (tag == "replace" and i_end - i == j_end - j):
            for was, now in zip(before[i:i_end], after[j:j_end], strict=True):
                if not was.is_named and not now.is_named:
                    found[was.name] = now.name
    for each in before:
        if not each.is_named and each.name not in found and each.name in taken:
            found[each.name] = f"{each.name} before"
    return found


def _signature(edge: LockedEdge) -> tuple[str, tuple[str, ...], str]:
    named = tuple(name for name, is_named in edge.making.operands[1:] if is_named)
    return edge.maker, named, edge.name if edge.is_named else ""


def _find_renames(old: BlockLock, new: BlockLock) -> dict[str, str]:
    """Return the named edges that have another name now and are otherwise as they were.

    Names follow each other: a renamed input changes the operands of what reads it.
    """
    gone = {each.name for each in old.edges} - {each.name for each in new.edges}
    come = {each.name for each in new.edges} - {each.name for each in old.edges}
    found: dict[str, str] = {}
    for was in old.edges:
        if not was.is_named or was.name not in gone:
            continue
        (moved,) = _renaming([was], found)
        for now in new.edges:
            if now.name in come and now.is_named and replace(now, name=was.name) == moved:
                found[was.name] = now.name
                come.discard(now.name)
                break
    return found


def _outputs(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    if tuple(old) != tuple(new):
        yield f"returns {', '.join(new)}, was {', '.join(old)}"


def _plan_changes(
    old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    for plan in dict.fromkeys([*new, *old]):
        if plan not in old:
            yield f"plan {plan} is new"
        elif plan not in new:
            yield f"plan {plan} is gone"
        else:
            now, was = new[plan], old[plan]
            yield from (f"plan {plan} no longer sends: {line}" for line in was if line not in now)
            yield from (f"plan {plan} also sends: {line}" for line in now if line not in was)


def _number_changes(
    lock: Lock, old: BlockLock, new: BlockLock, renamed: Mapping[str, str]
) -> Iterator[str]:
    """Yield results whose numbers differ by more than the tolerance, at the same sizes."""
    if old.sizes != new.sizes:
        return  # the sizes follow from the program, whose change is reported
    names = {**renamed, **{f"d{name}": f"d{other}" for name, other in renamed.items()}}
    before = {names.get(name, name): pair for name, pair in old.numbers.items()}
    room = lock.tolerance * max((norm for norm, _ in before.values() if isfinite(norm)), default=0)
    differing = [
        name
        for name, pair in new.numbers.items()
        if name in before and not _agree(before[name], pair, room)
    ]
    if differing:
        yield f"numbers differ: {', '.join(differing)}"


def _agree(old: tuple[float, float], new: tuple[float, float], room: float) -> bool:
    """Compare two summaries; equal infinities agree, and NaN with NaN."""
    return all(
        a == b or abs(a - b) <= room or (a != a and b != b) for a, b in zip(old, new, strict=True)
    )
