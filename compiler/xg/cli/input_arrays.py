"""Bring sizes, published weights and arrays from files together with a program.

An array's axis gives a size before the file's default does, and `--set` wins over both: `dim D =
64` is a default, so inputs with D = 32 are no error. `--seed` never turns dropout on, because that
would change a run whose parameters come from a file.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from xg.cli.arguments import settings_of
from xg.cli.opening import open_project
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.driver import Program, TensorSpec, compile_project
from xg.frontend.project import Project, named_file
from xg.frontend.typed import Settings, concerning, declared_dims, settable, shape_project
from xg.ir.graph import IRProgram
from xg.ir.size_checks import SizeSources, carried_sizes, sizes_from_arrays
from xg.ir.tensor import spell_shape
from xg.ir.walk import CallSite, entry, ignored, level_by_level, param_specs
from xg_runtime import arrays, model_config, names, rename, weights
from xg_runtime.errors import InputError
from xg_runtime.module import Arrays
from xg_runtime.names import ConfigPath, Names
from xg_runtime.run import Expected, fit
from xg_runtime.tensorfile import Writable, whole

# Sizes that have no number yet, where parameters are made or arrays are given.


def refuse_open_parameters(program: Program, why: str, instead: str = "") -> None:
    """Raise InputError where the size of a parameter has no number; `why` it must have one."""
    for name, spec in program.params.items():
        free = [symbol for axis in spec.shape for symbol in _symbols(axis)]
        if free:
            shape = ", ".join(map(str, spec.shape))
            raise InputError(
                f"the parameter {name} [{shape}] has no number for {free[0]}, and {why}: "
                f"--set {free[0]}=…{instead}"
            )
    main = program.graphs.main
    for shape in SizeSources.of(program.graphs).idle(main):
        unknown = [name for dim in shape for name in main.sizes.fold_exactly(dim).symbols()]
        if free := [name for name in unknown if name not in main.sizes.defaults]:
            said = spell_shape(main.sizes.fold_shape(shape))
            raise InputError(
                f"a parameter {said} of a call that may have no round has no number for {free[0]}, "
                f"and {why}: --set {free[0]}=…{instead}"
            )


def refuse_no_size(
    program: Program, shapes: Mapping[str, tuple[int, ...]], sources: Mapping[str, str]
) -> None:
    """Raise InputError for an axis as [2*T] whose length no T has; others have a number by now."""
    numbers = program.graphs.main.sizes.defaults
    for name, spec in {**program.inputs, **program.params}.items():
        lengths = shapes.get(name, ())
        for axis, length in zip(spec.shape, lengths, strict=False):
            symbols = _symbols(axis)
            unknown = [name for name in symbols if name not in numbers]
            if len(unknown) == 1 and symbols != [axis]:  # of two of them code asks for one
                shape, found = (", ".join(map(str, each)) for each in (spec.shape, lengths))
                where = f"{sources[name]}: {name}" if sources.get(name) else name
                raise InputError(
                    f"{where} must have shape [{shape}]; found [{found}], and no {unknown[0]} "
                    f"makes {axis} = {length}"
                )


def _symbols(axis: int | str) -> list[str]:
    return re.findall(r"[^\W\d]\w*", axis) if isinstance(axis, str) else []


# A program at the sizes of a checkpoint, and its parameters under the diagram's names.
#
# Sizes and options come from the checkpoint's config.json and from its arrays; the user's settings
# override both. `NAME.names.toml` beside the diagram says what its tensors are.


ENDING: Final = ".names.toml"
OF_SIZES: Final = "XG04"  # how the codes of errors of numbers begin


@dataclass(frozen=True)
class Published:
    """A checkpoint read for a diagram; `names` is None where nothing had to be renamed.

    Parameters that are `stored` may be views of a file, and put together when they are read.
    """

    program: Program
    stored: Writable
    tensors: int
    source: str
    settings: Settings
    names: Names | None
    notes: Sequence[str] = ()  # differences of the config that only training shows

    @classmethod
    def read(
        cls, project: Project, options: Namespace, path: Path, inputs: Arrays | None = None
    ) -> Published:
        """Read a checkpoint; raises DiagnosticError, InputError, FileError, CheckpointError."""
        return cls.of(project, options, weights.read(path), inputs)

    @classmethod
    def of(
        cls,
        project: Project,
        options: Namespace,
        checkpoint: weights.Weights,
        inputs: Arrays | None = None,
    ) -> Published:
        """Take tensors that were read; raises DiagnosticError, InputError, CheckpointError."""
        names_file = names_for(options, project, config=checkpoint.config)
        settings = {
            **_settings_of(project, options, checkpoint, names_file),
            **settings_of(options),
        }
        draft = shape_project(project, options.block, settings)
        paths = [path for path, *_ in param_specs(draft)]
        foreign = rename.is_foreign(checkpoint.tensors, paths)
        if foreign and names_file is None:
            raise InputError(
                f"{checkpoint.source} has names of its own, such as {min(checkpoint.tensors)}: say "
                f"with --names what they are in {draft.main.block}"
                + (f", or write {_names_path(options)}" if options.file != "-" else "")
            )
        names = of_block(names_file, project, draft, settings) if names_file and foreign else None
        seen = checkpoint.tensors
        if names:
            seen = _shown(names, checkpoint, draft, settings)
            shown = {**(inputs or {}), **seen}
            needed = concerning(project, draft.main.block, names.config.settings)
            _refuse_defaults(needed, checkpoint, draft, shown, settings)
        known_arrays = {**(inputs or {}), **seen}
        sources = {name: str(getattr(options, "inputs", "")) for name in inputs or {}}
        sources |= dict.fromkeys(seen, checkpoint.source)
        program = at_sizes_of(
            known_arrays, project, options.block, settings, options.plan, sources, draft
        )
        stored = _rename_tensors(program, names, checkpoint) if names else checkpoint.tensors
        notes = _notes(checkpoint, names_file) if names else ()
        return cls(
            program, stored, len(checkpoint.tensors), checkpoint.source, settings, names, notes
        )

    @cached_property
    def params(self) -> Arrays:
        """All parameters in memory."""
        return {name: whole(array) for name, array in self.stored.items()}


def _shown(names: Names, found: weights.Weights, draft: IRProgram, settings: Settings) -> Arrays:
    """The parameters whose shapes show before sizes are known."""
    numbers = {name: n for name, n in settings.items() if isinstance(n, int)}
    counted = names.at(draft.main.sizes.bind(numbers))
    paths = [path for path, *_ in param_specs(draft)]
    return rename.shown(counted, found, paths, numbers, draft.main.block)


def _settings_of(
    project: Project, options: Namespace, found: weights.Weights, known: Names | None
) -> Settings:
    """The settings of a checkpoint, as far as they concern the block."""
    told = found.settings
    config = found.config if known else None
    if known and config is not None:
        said = model_config.settings(known.config, config, str(_config_of(found)))
        told = {**told, **said}
    blocks = [block.name.name for block in project.main.blocks]
    return concerning(project, options.block or (blocks[-1] if blocks else None), told)


def _notes(found: weights.Weights, known: Names | None) -> Sequence[str]:
    config = found.config if known else None
    if known is None or config is None:
        return ()
    return model_config.notes(known.config, config, str(_config_of(found)))


def _config_of(found: weights.Weights) -> Path:
    return Path(found.source).parent / weights.CONFIG


def of_block(known: Names, project: Project, draft: IRProgram, settings: Settings) -> Names:
    """Return the names of one block of the file: the model's names below the call of it.

    A file that names more of the block's parameters than of the model's belongs to the block.
    """
    last = project.main.blocks[-1].name.name if project.main.blocks else None
    if last in (None, draft.main.block):
        return known
    main = shape_project(project, last, concerning(project, last, settings))
    if _lines_of(known, draft) > _lines_of(known, main):
        return known
    inside = call_path(main, draft.main.block)
    if inside is None:
        repeated = call_path(main, draft.main.block, repeated=True)
        raise InputError(
            f"{known.source} names the parameters of {main.main.block}, which "
            + (f"repeats {draft.main.block}" if repeated else f"does not call {draft.main.block}")
            + f": --names FILE with lines for the parameters of {draft.main.block} itself, such as "
            + ", ".join(path for path, *_ in islice(param_specs(draft), 2))
        )
    return rename.inside(known, inside)


def _lines_of(known: Names, program: IRProgram) -> int:
    """Return how many lines of a names file are about a program's parameters."""
    paths = [path for path, *_ in param_specs(program)]
    return sum(
        any(rename.fits(param, path) for param in line.params for path in paths)
        for line in known.lines
    )


def call_path(graphs: IRProgram, block: str, *, repeated: bool = False) -> str | None:
    """The path of the first call of a block: ``bert``, ``model.encoder``.

    Without `repeated`, the path does not lead through a repeat.
    """

    def below(site: CallSite) -> Iterator[CallSite]:
        calls = (call for call in site.graph.calls if repeated or call.count is None)
        return (site.enter(call, graphs.graphs) for call in calls)

    _, *sites = level_by_level([entry(graphs)], below, lambda site: site.graph.block)
    return next((site.path for site in sites if site.graph.block == block), None)


def _refuse_defaults(
    needed: Mapping[str, ConfigPath],
    found: weights.Weights,
    draft: IRProgram,
    arrays: Arrays,
    settings: Settings,
) -> None:
    """Raise InputError where a checkpoint has no config, and arrays do not say what it would.

    A size that a parameter has is compared with its array in any case.
    """
    if found.config is not None or found.settings:
        return
    sizes = sizes_from_arrays(draft, {name: array.shape for name, array in arrays.items()})
    shapes = [param.type.shape for _, param, *_ in param_specs(draft)]
    visible = {name for shape in shapes for dim in shape for name in dim.symbols()}
    lacking = [
        name
        for name, way in needed.items()
        if name not in {*sizes, *settings, *visible} and not way.training
    ]
    if lacking:
        raise InputError(
            f"{found.source} has no {weights.CONFIG} beside it, and its arrays do not "
            f"determine {', '.join(lacking)}: the diagram's own values may not be the model's",
            (
                f"put the {weights.CONFIG} of the model beside it",
                "or say them: " + " ".join(f"--set {name}=…" for name in lacking),
            ),
        )


def _rename_tensors(program: Program, names: Names, found: weights.Weights) -> Writable:
    """A checkpoint's tensors as the parameters of a program whose sizes have numbers."""
    shapes = {
        name: tuple(map(int, spec.shape)) for name, spec in program.on_one_device.params.items()
    }
    return rename.read_later(names, found, shapes, size_numbers(program), program.graphs.main.block)


def names_for(
    options: Namespace,
    project: Project,
    *,
    config: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    before: Names | None = None,
) -> Names | None:
    """The file of names that is given, or the one beside the diagram if there is one.

    Of several, `NAME.names.toml` and `NAME.FAMILY.names.toml`, it is the first for the config's
    model_type, or that can say the options which the settings choose; of these the one that was
    read `before`. Raises InputError where it sets what the diagram does not have.
    """
    paths = _names_paths(options) if options.names is None else [options.names]
    found = [names.read(path) for path in paths]
    known = settable(project)
    for each in found:
        for name in each.config.settings:
            if name not in known:
                raise InputError(
                    f"{each.source} sets {name}, which is no dim or option of {options.file}: "
                    f"it may set {', '.join(sorted(known))}"
                )
    fitting = [each for each in found if _is_for(each, config, settings)]
    same = [each for each in fitting if before is not None and each.source == before.source]
    return next(iter(same or fitting or found), None)


def _is_for(known: Names, config: Mapping[str, Any] | None, settings: Settings | None) -> bool:
    if config is not None and "model_type" in config:
        return known.config.drawn.get("model_type") == config["model_type"]
    return settings is None or model_config.says(known.config, settings)


def _names_path(options: Namespace) -> Path:
    return (Path("NAME.xg") if options.file == "-" else named_file(options.file)).with_suffix(
        ENDING
    )


def _names_paths(options: Namespace) -> list[Path]:
    """Return the files of names next to a diagram: its own, then files for other families."""
    own = _names_path(options)
    stem = own.name.removesuffix(ENDING)
    return [own, *sorted(own.parent.glob(f"{stem}.*{ENDING}"))] if own.is_file() else []


def size_numbers(program: Program) -> dict[str, int]:
    """Every dim of the compiled block that has a number."""
    return program.graphs.main.sizes.bind(program.graphs.numbers)


def at_sizes_of(
    found: Arrays,
    project: Project,
    block: str | None,
    settings: Settings,
    plan: str | None = None,
    sources: Mapping[str, str] = MappingProxyType({}),
    draft: IRProgram | None = None,
) -> Program:
    """A block with the sizes that arrays have, unless the settings say otherwise.

    `sources` are the files of arrays, which an error names beside the sizes that it is about;
    `draft` is the block without numbers, if that is known already.
    """
    draft = draft or shape_project(project, block, settings)
    shapes = {name: array.shape for name, array in found.items()}
    carried = carried_sizes(draft, shapes)
    own = declared_dims(project).keys() - settings.keys()
    declared = {name: number for name, (number, _) in carried.items() if name in own}
    try:
        program = compile_project(project, block, {**declared, **settings}, plan)
    except DiagnosticError as error:
        written = draft.main.sizes.defaults
        notes: dict[str, str] = {}
        for name, number in declared.items():
            array = carried[name][1]
            if array in sources and number != written.get(name):
                has = f"{array} [{', '.join(map(str, shapes[array]))}] in {sources[array]} has it"
                said = f"; the file says {written[name]}" if name in written else ""
                notes[name] = f"{name} = {number}, as {has}{said}"
        raise DiagnosticError(_with_notes(each, notes) for each in error.diagnostics) from None
    refuse_no_size(program.on_one_device, shapes, sources)
    return program


def _with_notes(diagnostic: Diagnostic, notes: Mapping[str, str]) -> Diagnostic:
    """Add to a diagnostic about sizes the notes on the sizes that it names."""
    if not diagnostic.code.startswith(OF_SIZES):
        return diagnostic
    words = re.findall(r"\w+", diagnostic.message)
    own = (note for name, note in notes.items() if name in words)
    return replace(diagnostic, notes=(*diagnostic.notes, *own))


def effective(
    project: Project, program: Program, settings: Settings, wanted: Iterable[str]
) -> Settings:
    """The effective settings: set, or a size, or as in the file."""
    main = program.graphs.main.block
    defaults = {
        option.name.name: option.words[0].name
        for module in project.modules[::-1]
        for option in module.options
    }
    for block in project.main.blocks:
        if block.name.name == main:
            own = [each for each in block.own if each.default is not None]
            defaults |= {each.name.name: each.default.span.text for each in own if each.default}
    together = {**defaults, **settings, **size_numbers(program)}
    return {name: together[name] for name in wanted if name in together}


@dataclass(frozen=True)
class InputArrays:
    """A program at the sizes of its arrays, and the arrays in its order and type."""

    program: Program
    inputs: Arrays
    params: Arrays | None  # None: to be drawn
    cotangents: Arrays | None  # None: no gradients are wanted
    dtype: str  # of its floats: float32 where NumPy lacks the one that is asked for
    notes: Sequence[str] = ()  # sizes that are not those of the file

    @classmethod
    def read(cls, options: Namespace) -> InputArrays:
        """Read the arrays of the files; raises DiagnosticError, InputError, FileError."""
        project = open_project(options.file)
        inputs = arrays.read(options.inputs)
        params, notes = None, list[str]()
        if options.params:
            held = Published.read(project, options, options.params, inputs)
            program, params = held.program, held.params
        else:
            settings = settings_of(options)
            sources = dict.fromkeys(inputs, str(options.inputs))
            block, plan = options.block, options.plan
            program = at_sizes_of(inputs, project, block, settings, plan, sources=sources)
            notes = sorted(_size_notes(project, options, program))
        of, whole = _dtype(options), program.on_one_device
        return cls(
            program,
            fit(inputs, expected_inputs(whole), dtype=of, source=str(options.inputs)),
            params and fit(params, expected(whole.params), dtype=of, source=str(options.params)),
            _cotangents(whole, options),
            of,
            notes,
        )


def _size_notes(project: Project, options: Namespace, program: Program) -> Iterator[str]:
    """Notes on dims that have another number in the inputs than in the file.

    Parameters that are drawn follow the inputs.
    """
    settings = settings_of(options)
    written = shape_project(project, options.block, settings).main.sizes.defaults
    numbers = size_numbers(program.on_one_device)
    for name in written.keys() & declared_dims(project).keys() - settings.keys():
        if numbers[name] != written[name]:
            taken = f"{name} = {numbers[name]}, as {options.inputs} has it"
            yield f"note: {taken}; the file says {written[name]}"


def _cotangents(program: Program, options: Namespace) -> Arrays | None:
    """The cotangents of the float outputs in the file of --d-outputs; a missing one is zero."""
    if options.d_outputs is None:
        return None
    d_outputs = arrays.read(options.d_outputs)
    floats = {name: spec for name, spec in program.outputs.items() if spec.dtype == "float"}
    expectations = {name: want for name, want in expected(floats).items() if name in d_outputs}
    return fit(d_outputs, expectations, dtype=_dtype(options), source=str(options.d_outputs))


def _dtype(options: Namespace) -> str:
    return "float32" if options.dtype == "bfloat16" else options.dtype


def expected(specs: Mapping[str, TensorSpec]) -> dict[str, Expected]:
    """The inputs of a program, as the runtime describes them."""
    return {
        name: Expected(spec.shape, below=spec.range if isinstance(spec.range, int) else None)
        for name, spec in specs.items()
    }


def expected_inputs(program: Program) -> dict[str, Expected]:
    """The inputs of a program by arrows, with the ids that its losses ignore."""
    main = program.graphs.main
    expectations = expected(program.inputs)
    for value in main.inputs:
        name = str(value.name)
        expectations[name] = Expected(
            expectations[name].axes, expectations[name].below, ignored(program.graphs, value)
        )
    return expectations
