"""Read and write `xg.lock`: one TOML file beside the diagrams, one section for each block.

Sections are sorted, and each fact has a line of its own, so that two branches merge.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from math import isfinite
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np

from xg import ops
from xg.codegen.backend import backends
from xg.cost.communication import sent
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.driver import Program, compile_project
from xg.figures import dot
from xg.frontend.project import Project
from xg.frontend.typed import concerning, root_blocks
from xg.ir.walk import join
from xg.verify.gradient_proof import sample
from xg.verify.plan_proof import select_proofs
from xg_pages.diff.compare import Edge as DiffEdge
from xg_pages.diff.compare import Making, called_graphs, edges
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
