"""Write a whole module: its head, blocks, public functions, operators, and what these call."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from xg import __version__
from xg.codegen.backend import default
from xg.codegen.emit import array_ops
from xg.codegen.emit.allowlist import Allowlist, check_code
from xg.codegen.emit.block_functions import Forward, backward_function, forward_function
from xg.codegen.emit.call_text import FIELDS
from xg.codegen.emit.dialect import Dialect
from xg.codegen.emit.module_plan import ModulePlan, may_be_absent
from xg.codegen.emit.names import plain, safe, spell_symbol, write_with_stable_names
from xg.codegen.emit.parameters import bundles, param_starts
from xg.codegen.emit.public import PublicWriter, StepWriter
from xg.codegen.emit.public_params import ParamsWriter, move_function
from xg.codegen.emit.spelling import shape_text
from xg.codegen.emit.text import WIDTH, arguments, bracketed, indent_lines, wrap_text
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.graph import Graph, IRProgram, Value
from xg.ir.tensor import TensorType
from xg.ir.walk import reachable_keys

# The head of a generated module: what it is, what it imports, names of types, constants.


# What generated code may take from the standard library by its name.
STANDARD: Final = {
    "collections.abc": ("Callable", "Iterator", "Mapping"),
    "contextlib": ("AbstractContextManager", "nullcontext"),
    "functools": ("wraps",),
    "typing": ("Any", "NamedTuple"),
}
CHANGE: Final = "Change the diagram, not this file."
SAVED: Final = "saved values"
PUBLIC: Final = "public interface"
WHOLE: Final = (
    "# These are the functions of the blocks: `xg show --whole` prints all of the module."
)
TABLES: Final = {
    "ParamTable": "dict[str, tuple[tuple[int, ...], float | str]]",
    "StartTable": "dict[str, tuple[tuple[int, ...], float | str | tuple[float, float]]]",
    "CacheTable": "dict[str, tuple[tuple[int, ...], str]]",
}


def header(plan: ModulePlan, dialect: Dialect, code: str) -> str:
    """The lines before the code: imports and names that it mentions."""
    aliases = _aliases({**dialect.aliases, **TABLES}, code)
    imports = dialect.header.format(
        standard=_standard(aliases + code), ranks=array_ops.imports(code)
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
    inputs = ", ".join(_declaration(graph, value) for value in graph.inputs)
    pairs = zip(graph.output_names, graph.output_types, strict=True)
    outputs = ", ".join(f"{name} {type_}" for name, type_ in pairs)
    function = "forward" if plan.saves else "step"
    ranks = " × ".join(f"{name} = {size}" for name, size in mesh.items())
    padded, known = plan.program.lengths.items(), plan.program.all_numbers
    lines = [
        f'"""{safe(graph.title)}: {what} in {dialect.title}.',
        "",
        *wrap_text(f"Compiled by xg {__version__} from {file}, block {graph.block}. {CHANGE}", 0),
        *([f"Every rank of the mesh {ranks} runs it, on its shards."] if mesh else []),
        *(f"{name} = {length} is padded with zeros to {known[name]}." for name, length in padded),
        "",
        *indent_lines(wrap_text(f"{function}({inputs}) -> {outputs}", 4, 4)),
        '"""',
    ]
    return "\n".join(lines)


def _declaration(graph: Graph, value: Value) -> str:
    type_ = TensorType(graph.shape(value), graph.types[value].range)
    return f"{value.name} {value.declared or type_}"


def _aliases(aliases: Mapping[str, str], code: str) -> str:
    """Return the aliases that the code mentions, or that another alias in use mentions."""
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


# Private functions around the public ones: the same text in every backend.


ADD: Final = '''def _add(grads: Params, name: str, part: Array) -> None:
    """Add one part of the gradient of a parameter that is used in several places."""
    grads[name] = grads[name] + part if name in grads else part
'''

LATER: Final = '''def _later(later: list[Any] | None, part: Any) -> None:
    """Run a part of a backward pass, or leave it in a list, for who may run it later."""
    if later is None:
        part()
    else:
        later.append(part)
'''

ARRAY: Final = '''def _array(arrays: Mapping[str, Array], name: str, axes: int) -> Array:
    """Get an array by its name; raise ValueError if it has another number of axes."""
    given = {key: array for key, array in arrays.items() if key == name}
    _check("arrays", given, {name: axes}, {})
    return arrays[name]
'''

CHECK: Final = '''\
def _check(
    what: str,
    arrays: Any,
    shapes: Mapping[str, tuple[int, ...] | int],
    others: Any,
    *more: str,
) -> None:
    """Raise an error if arrays have other names, shapes, or numbers of axes."""
    for argument, given in ((what, arrays), ("params", others)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{argument} should be a dict: arrays by their names")
    known = [*shapes, *more]
    if what == "inputs" and [name for name in known if name in others]:
        raise ValueError("params and inputs are swapped: params come first")
    names = set(known)
    for name in [name for name in arrays if name not in names]:
        said = ", ".join(known[:9]) + (", …" if len(known) > 9 else "")
        raise ValueError(f"there is no {name}, but {said}")
    d = "d" if what == "d_outputs" else ""
    for name in [name for name in shapes if not d or name in arrays]:
        shape = shapes[name]
        wanted = "" if isinstance(shape, int) else f" {list(shape)}"
        if name not in arrays:
            raise ValueError(f"{name}{wanted} is missing")
        if not hasattr(arrays[name], "shape"):
            wrong = "should be an array: lists and numbers have no shape"
            raise TypeError(f"{d}{name} {wrong}")
        found = tuple(arrays[name].shape)
        if what == "inputs" and "complex" in str(arrays[name].dtype):
            wrong = f"should have real numbers, not {arrays[name].dtype}"
            raise TypeError(f"{name} {wrong}")
        if isinstance(shape, int) and len(found) != shape:
            wrong = f"should have {shape} axes, not shape {list(found)}"
            raise ValueError(f"{name} {wrong}")
        if not isinstance(shape, int) and found != shape:
            beside = {key: x for key, x in others.items() if hasattr(x, "shape")}
            for key, array in beside.items():
                for read, size in zip(shape, found, strict=False):
                    if read in array.shape and read not in found:
                        wrong = f"{key} {list(array.shape)} does not fit the parameters"
                        held = f"as in {name} {list(found)}"
                        raise ValueError(f"{wrong}: {read} should be {size}, {held}")
            raise ValueError(f"{d}{name} should have shape{wanted}, not {list(found)}")
'''

REFUSE_EMPTY: Final = '''def _refuse_empty(**sizes: int) -> None:
    """Raise ValueError for a size of parameters that is less than 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} = {size}: a parameter needs at least one element")
'''

COPY: Final = '''def _copy(saved: Any) -> Any:
    """Copy the records but not their tensors: a backward pass empties its records."""
    if isinstance(saved, list):
        return [_copy(part) for part in saved]
    if saved is None or isinstance(saved, int | Array):
        return saved
    fields = {name: _copy(saved.__dict__[name]) for name in saved._fields}
    return saved.__class__(**fields)
'''

HELPERS: Final[Mapping[str, str]] = {
    "check": CHECK,
    "refuse_empty": REFUSE_EMPTY,
    "array": ARRAY,
    "add": ADD,
    "later": LATER,
    "copy": COPY,
}


@dataclass(slots=True)
class Sections:
    """Parts that a backend adds to a module: public classes, code of autograd, support."""

    public: list[list[str]]
    steps: list[list[str]]
    support: list[list[str]]


Add = Callable[["ModuleWriter"], Sections]


def block_functions(source: str) -> str:
    """The functions of a module's blocks under its docstring, without what they call."""
    tree, lines = ast.parse(source), source.splitlines()
    end = next(n for n, line in enumerate(lines) if line in (section(SAVED), section(PUBLIC)))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    above = lines[: tree.body[0].end_lineno]
    shown = lines[min(end, functions[0].lineno - 1) : end]
    return "\n".join([*above, "", WHOLE, "", "", *shown]).rstrip() + "\n"


def emit(program: IRProgram, dialect: Dialect, *, kernels: bool = False) -> str:
    """The source of the module; nothing in it is unknown."""
    source, writer = write_with_stable_names(lambda: marked(program, dialect, kernels=kernels))
    check_code(source, writer.vocabulary(source))
    return source


def marked(
    program: IRProgram, dialect: Dialect, *, kernels: bool = False
) -> tuple[str, ModuleWriter]:
    """The source with marked names, and what wrote it."""
    by_hand = dialect.kernels if kernels else None
    writer = ModuleWriter(
        program,
        dialect,
        ModulePlan.start(program, dialect.spelling, kernels=by_hand, always=dialect.always),
    )
    return writer.source(), writer


class ModuleWriter:
    """Write one module; a backend may add sections of its own after the public functions."""

    def __init__(self, program: IRProgram, dialect: Dialect, plan: ModulePlan) -> None:
        self.program = program
        self.dialect = dialect
        self.plan = plan
        plan.prepares = bool(dialect.ready and plan.kernels) and not plan.saves
        plan.bundles = plan.defers_sums and bundles(program, plan.shared)
        self.saved: dict[str, tuple[Forward, tuple[str, ...]]] = {}
        self.blocks: dict[str, list[list[str]]] = {}
        self.support = plan.kernels.support if plan.kernels else dialect.support
        self.params = ParamsWriter.start(dialect, plan)

    def source(self, add: Add | None = None) -> str:
        """The text, with marked names."""
        main = self.program.entry
        self.blocks = {
            key: list(self.block(key))
            for key in reachable_keys(self.program.graphs, self.program.entry)
        }
        passes = 2 if self.plan.saves else 1
        functions = [part for block in self.blocks.values() for part in block[:passes]]
        saved = [part for block in self.blocks.values() for part in block[passes:]]
        writer = PublicWriter if self.plan.saves else StepWriter
        public = writer(self.dialect, self.plan, self.params, *self.saved[main])
        entries = public.functions()
        decorator = self._decorator(self.dialect.wide)
        added = add(self) if add else Sections([], [], [])
        support = [*public.support(), *self._helpers()]
        support += [part for part in added.support if part not in support]
        text = "\n\n\n".join(
            [
                *_join_lines(functions),
                *self._section(SAVED, saved),
                *self._section(PUBLIC, [*decorator, *entries, *added.public]),
                *self._section("steps of autograd", added.steps),
                *self._section("operators", self._operators()),
                *self._section("support", [*support, *self._support()]),
            ]
        )
        return f"{header(self.plan, self.dialect, text)}\n\n{text}\n"

    def vocabulary(self, source: str) -> Allowlist:
        """Return the allowlist of the backend, with what a module for ranks calls."""
        vocabulary = self.dialect.vocabulary
        line = array_ops.imports(source)
        if not line:
            return vocabulary
        return replace(
            vocabulary,
            imports=vocabulary.imports | {ast.unparse(ast.parse(line))},
            methods=vocabulary.methods | array_ops.METHODS,
        )

    # ---- sections -------------------------------------------------------------------------------

    def _section(self, title: str, parts: Sequence[Sequence[str]]) -> list[str]:
        """Parts under a heading, if there are any."""
        return [section(title), *_join_lines(parts)] if parts else []

    def _operators(self) -> list[list[str]]:
        written = self.plan.operators.written.items()
        functions = [_wrap_signature(function.source(name)) for name, function in written]
        return [*self._decorator(self.dialect.spelling.wide), *functions]

    def _decorator(self, name: str) -> list[list[str]]:
        """The support function that decorates others, which comes before them."""
        used = name in self.plan.operators.support
        return [self.support.source(name).splitlines()] if used else []

    def _helpers(self) -> list[list[str]]:
        """Functions that are the same in every backend."""
        helpers = {"check": None, **self.plan.helpers}
        return [text.splitlines() for name, text in HELPERS.items() if name in helpers]

    def _support(self) -> list[list[str]]:
        """Functions of the backend's own that anything calls, and those that these call."""
        starts = param_starts(self.program) if self.plan.saves else []
        drawn = [law for law in ("normal", "uniform") if law in starts]
        types = ["check_float"] if starts else []
        needed = self.support.closure([*self.plan.operators.support, *types, *drawn])
        first = {self.dialect.spelling.wide, self.dialect.wide}
        return [self.support.source(name).splitlines() for name in needed if name not in first]

    # ---- blocks ---------------------------------------------------------------------------------

    def block(self, key: str) -> Iterator[list[str]]:
        """The forward and the backward function of a block, and its saved values."""
        graph = self.program.graphs[key]
        if key in self.plan.recurrences:  # kernels compute all rounds at once: it has no functions
            self.plan.arguments[key] = ()
            if self.plan.saves:
                yield from ([], [], self._class(key, dict.fromkeys(FIELDS, "Array"), {}))
            return
        if not self.plan.saves:
            forward = forward_function(self.plan, graph, ())
            self.saved[key] = (forward, ())
            yield forward.lines
            return
        backward = self.program.backwards[key]
        forward = forward_function(self.plan, graph, backward.saved)
        reverse, lost = backward_function(self.plan, backward, forward)
        if key == self.program.entry:
            lost += PublicWriter(
                self.dialect, self.plan, self.params, forward, lost
            ).sizes_to_save()
        if lost:  # sizes that no saved tensor carries are saved themselves
            forward = forward_function(self.plan, graph, backward.saved, lost)
        self.saved[key] = (forward, lost)
        yield forward.lines
        yield reverse
        yield self._saved_class(key, forward.fields, lost)
        if key in self.plan.moved:
            yield move_function(self.plan, graph, forward.fields)

    def _saved_class(
        self, key: str, fields: Mapping[Value, str], sizes: Sequence[str]
    ) -> list[str]:
        """The class of a block's saved values: a tuple, or an object if fields are freed."""
        graph = self.program.graphs[key]
        calls = {step.saved: step for step in graph.calls}
        kinds: dict[str, str] = {}
        shapes: dict[str, str] = {}
        for value, field in fields.items():
            if value.role == "saved":
                kind = self.plan.classes[calls[value].callee]
                one = calls[value].rounds is None or calls[value].callee in self.plan.recurrences
                kinds[field] = kind if one else f"list[{kind}]"
            else:
                kinds[field] = "Array | None" if may_be_absent(value) else "Array"
                shapes[field] = f"  # {shape_text(graph.types[value].shape, graph.sizes)}"
        kinds |= {spell_symbol(size): "int" for size in sizes}
        kinds |= {"seed": self.plan.spelling.seed} if key in self.plan.redrawn else {}
        return self._class(key, kinds, shapes)

    def _class(self, key: str, kinds: Mapping[str, str], shapes: Mapping[str, str]) -> list[str]:
        name = self.plan.classes[key]
        function = self.plan.functions[key]
        base = "" if self.plan.frees_saved_values else "(NamedTuple)"
        return [
            f"class {name}{base}:",
            f'    """Values of `{function}` that `d_{function}` needs."""',
            *([""] if kinds else []),
            *indent_lines((_object if self.plan.frees_saved_values else _tuple)(kinds, shapes)),
        ]


def _tuple(kinds: Mapping[str, str], shapes: Mapping[str, str]) -> list[str]:
    return [f"{name}: {kind}{shapes.get(name, '')}" for name, kind in kinds.items()]


def _object(kinds: Mapping[str, str], shapes: Mapping[str, str]) -> list[str]:
    """Names of fields, as a tuple of names has them, and a method that keeps its arguments."""
    if not kinds:
        return ["_fields = ()"]
    fields = [f'"{name}"' for name in kinds]
    if len(fields) == 1:
        fields = [f"{fields[0]},"]
    names = ["self", *_tuple(kinds, {})]
    assignments = [f"self.{name} = {name}{shapes.get(name, '')}" for name in kinds]
    return [
        *_fields(fields),
        "",
        *bracketed("def __init__(", names, ") -> None:", 4),
        *indent_lines(assignments),
    ]


def _fields(names: Sequence[str]) -> list[str]:
    """Return the names of fields on one line, or one per line if they are too long."""
    line = f"_fields = ({', '.join(names)})"
    if len(line) + 4 <= WIDTH:
        return [line]
    return ["_fields = (", *(f"    {name.rstrip(',')}," for name in names), ")"]


def _join_lines(parts: Sequence[Sequence[str]]) -> list[str]:
    return ["\n".join(lines) for lines in parts if lines]


def _wrap_signature(lines: Sequence[str]) -> list[str]:
    """A function whose head may be too long for a line."""
    count = int(lines[0].startswith("@"))
    above, (head, *body) = lines[:count], lines[count:]
    opening, rest = head.split("(", 1)
    inside, closing = rest.rsplit(") -> ", 1)
    return [*above, *bracketed(f"{opening}(", arguments(inside), f") -> {closing}"), *body]


# The names of a program's values in its code.


def module_writer(program: IRProgram) -> ModuleWriter:
    """The writer of a program's module by the default backend, once it has written it."""
    return write_with_stable_names(lambda: marked(program, default().parts))[1]


def names_of(writer: ModuleWriter, key: str) -> dict[Value, str]:
    """The text of every value in the forward function of a block; of most a variable."""
    return {value: plain(name) for value, name in writer.saved[key][0].names.items()}


def variables(program: IRProgram) -> Mapping[str, Mapping[Value, str]]:
    """By the key of each block the values that are variables there, with their names."""
    writer = module_writer(program)
    return {
        key: {v: name for v, name in names_of(writer, key).items() if name.isidentifier()}
        for key in writer.saved
    }
