"""Find the training task of a diagram and its data: next tokens of a text, or rows of arrays."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from pathlib import Path

from xg.cli.arguments import settings_of
from xg.cli.input_arrays import at_sizes_of, expected_inputs, refuse_open_parameters
from xg.cli.opening import open_project
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.driver import Program, compile_project
from xg.frontend.project import Project
from xg.frontend.typed import Settings, declared_dims
from xg.ir.dim import Dim
from xg.ir.graph import Apply, IRProgram, Value
from xg.ir.size_checks import sizes_from_arrays
from xg.ir.walk import ignored, is_loss, scalars
from xg.ir.walk import loss_of as loss_of_graph
from xg_generate.runs import TrainingSetup
from xg_runtime import arrays, batches, files
from xg_runtime.batches import ArraySource, TextSource
from xg_runtime.errors import InputError
from xg_runtime.module import Arrays
from xg_runtime.run import fit
from xg_runtime.step import WHOLE, Split
from xg_runtime.tokens import IdVocabulary, Tokenizer

# The training task of a block: next tokens of a text, or rows of arrays.


@dataclass(frozen=True, slots=True)
class TextTask:
    """A block over tokens: ids and targets ``[B, S] in V``; `logits` is None if none comes out."""

    ids: str
    targets: str
    logits: str | None
    batch: Dim
    window: Dim
    vocabulary: Dim


def loss_of(program: IRProgram, wanted: str | None = None) -> str:
    """The output that training makes small: the one wanted, `loss`, or the only number."""
    main = program.main
    names = scalars(main)
    chosen = loss_of_graph(main) if wanted is None else wanted
    if chosen in names:
        return chosen
    if wanted is None and names:
        raise InputError(f"--loss must name an output to minimize: choose {', '.join(names)}")
    outputs = ", ".join(main.output_names)
    if wanted is not None:
        lacking = f"{wanted} is no output of {main.block} that is a single float"
        raise InputError(f"{lacking}: it gives {outputs}")
    raise InputError(
        f"{main.block} gives no loss to train on: its outputs are {outputs}; a loss is an output "
        "without axes, such as `loss []` of a chain that ends in `-> MSE<-t : loss`"
    )


def text_task(program: IRProgram) -> TextTask | None:
    """The task of a block with exactly two integer inputs of one shape, or None."""
    main = program.main
    if len(main.inputs) != 2:
        return None
    types = [main.types[value] for value in main.inputs]
    shape, range_ = types[0].shape, types[0].range
    if types[0] != types[1] or range_ is None or len(shape) != 2:
        return None
    ids, targets = main.inputs
    if _is_target(program, ids) and not _is_target(program, targets):
        ids, targets = targets, ids
    logits = _logits(program, targets)
    return TextTask(str(ids.name), str(targets.name), logits, *shape, range_)


def split_of(program: IRProgram, loss: str, rows: frozenset[str], count: int) -> Split:
    """How a batch is computed in parts; raises InputError where the loss is not one of its rows."""
    if count == 1:
        return WHOLE
    main = program.main
    value = dict(zip(main.output_names, main.outputs, strict=True))[loss]
    for step in main.steps:
        if is_loss(step) and value in step.outputs:
            targets = step.inputs[1]
            if len(step.inputs) == 2 and str(targets.name) in rows:
                is_mean = step.attrs["reduction"] == "mean"
                return Split(count, rows, is_mean, str(targets.name), ignored(program, targets))
    raise InputError(
        "--accumulate needs a loss of an operator such as MSE or CE with targets of the "
        f"batch, and {loss} of {main.block} is none: leave it out"
    )


def _is_target(program: IRProgram, value: Value) -> bool:
    return _compared_value(program, value) is not None


def _compared_value(program: IRProgram, targets: Value) -> Value | None:
    """Return the value that the block's own loss compares with these targets."""
    loss = _loss(program, targets)
    return loss and loss.inputs[0]


def _loss(program: IRProgram, targets: Value) -> Apply | None:
    """The block's own loss of these targets."""
    for step in program.main.steps:
        if is_loss(step) and targets in step.inputs[1:]:
            return step
    return None


def _logits(program: IRProgram, targets: Value) -> str | None:
    compared = _compared_value(program, targets)
    return _output(program, compared) if compared is not None else None


def _output(program: IRProgram, wanted: Value) -> str | None:
    """The name under which a value leaves the block, or None."""
    main = program.main
    for name, value in zip(main.output_names, main.outputs, strict=True):
        if value is wanted:
            return name
    return None


WINDOW = 64  # tokens, where nothing says otherwise
TOKENS = "input_ids"  # the column of tokens of a dataset
HELD = 10  # of so many rows one is kept for validation


def training_setup(options: Namespace) -> TrainingSetup:
    """The training that FILE and the options ask for.

    Raises DiagnosticError, InputError, FileError, CheckpointError.
    """
    project = open_project(options.file)
    setup = _on_one_device(project, options)
    refuse_open_parameters(setup.program.on_one_device, "it is drawn from a seed")
    if options.plan is None and setup.program.distributed is None:
        return setup
    sizes = setup.sizes or setup.settings
    parallel = compile_project(project, options.block, sizes, options.plan)
    planned = parallel.schedule
    parts = options.accumulate or (planned and planned.parts) or 1
    # Only in fused code do the sums of a batch's parts wait for the last one, to be sent once.
    return replace(setup, parallel=parallel, kernels=options.kernels or parts > 1, parts=parts)


def _on_one_device(project: Project, options: Namespace) -> TrainingSetup:
    """The lesson without its plan."""
    draft = compile_project(project, options.block, settings_of(options)).on_one_device
    loss_of(draft.graphs, options.loss)  # without one no data would help
    if options.data is None or not _has_rows(options, draft):
        task = text_task(draft.graphs)
        if task is not None:
            return _of_text(project, draft, task, options)
    if options.data is None:
        inputs = ", ".join(str(value.name) for value in draft.graphs.main.inputs)
        block = draft.graphs.main.block
        raise InputError(
            f"{block} does not train on text: name an .npz file with {inputs} by --data"
        )
    return _of_rows(project, draft, options)


def _has_rows(options: Namespace, draft: Program) -> bool:
    """Whether the data has rows of the diagram's inputs; raises InputError for a strange folder."""
    if not options.data.is_dir():
        return options.data.suffix in arrays.ENDINGS
    there = batches.columns(options.data)
    inputs = [str(value.name) for value in draft.graphs.main.inputs]
    if set(inputs) <= set(there):
        of_text = {
            "--seq": options.seq,
            "--tokenizer": options.tokenizer,
            "--sample": options.sample,
        }
        for word in (word for word, value in of_text.items() if value):
            raise InputError(
                f"{word} is for tokens, but {options.data} has rows of {inputs[0]}: leave it out"
            )
        return True
    if TOKENS in there:
        return False
    raise InputError(
        f"{options.data} must have the columns {', '.join(inputs)}, or {TOKENS} for text; "
        f"found {', '.join(there)}"
    )


def _of_text(project: Project, draft: Program, task: TextTask, options: Namespace) -> TrainingSetup:
    numbers = draft.graphs.main.sizes.bind({})
    text = _corpus(options, task, numbers.get(task.vocabulary.name or ""))
    window = options.seq or numbers.get(task.window.name or "", WINDOW)
    text_sizes = {
        task.window: window,
        task.batch: options.batch,
        task.vocabulary: text.vocabulary.size,
    }
    declared = {dim.name: n for dim, n in text_sizes.items() if dim.name in declared_dims(project)}
    settings: Settings = {**declared, **settings_of(options)}
    program = compile_project(project, options.block, settings)
    held = _number(program, task.vocabulary)
    if held < text.vocabulary.size:
        raise InputError(
            f"the text has {text.vocabulary.size} kinds of tokens, but {task.ids} takes "
            f"{held}: --set {task.vocabulary}={text.vocabulary.size} makes room"
        )
    names = (task.ids, task.targets)
    source = TextSource(text, options.batch, window, options.seed, names)
    references = {"unigram entropy": text.entropy}
    loss = loss_of(program.graphs, options.loss)
    of_text = (text, window)
    how = options.backend, options.kernels, options.accumulate or 1
    return TrainingSetup(program, source, loss, settings, *how, references, of_text)


def _corpus(options: Namespace, task: TextTask, size: int | None) -> batches.Corpus:
    """The tokens of a text, or of shards; `size` is how many the diagram has room for."""
    tokenizer = Tokenizer.read(options.tokenizer) if options.tokenizer else None
    is_folder = options.data is not None and options.data.is_dir()
    if options.data is None or not (is_folder or options.data.suffix == batches.ENDING):
        return batches.load(options.data, tokenizer or options.level)
    if tokenizer is None and size is None:
        raise InputError(
            f"{task.vocabulary} has no number: write --tokenizer, or set the number of "
            f"tokens, such as --set {task.vocabulary}=50257"
        )
    vocabulary = tokenizer or IdVocabulary(size or 0)
    if options.sample:
        vocabulary.encode(
            options.prompt.encode("utf-8", "surrogateescape")
        )  # refused before it is trained
    if is_folder:
        ids = batches.joined(options.data, TOKENS)
        batches.check_vocabulary(f"{TOKENS} in {options.data}", ids, vocabulary.size)
        return batches.split(ids, vocabulary, hashlib.sha256(ids.tobytes()).hexdigest())
    read = batches.read_shards(batches.find(options.data), options.token_type, vocabulary.size)
    return batches.split(read.ids, vocabulary, read.sha256)


def _of_rows(project: Project, draft: Program, options: Namespace) -> TrainingSetup:
    data_arrays, sha256 = _arrays(draft, options.data)
    source_name = str(options.data)
    settings, sources = settings_of(options), dict.fromkeys(data_arrays, source_name)
    program = at_sizes_of(data_arrays, project, options.block, settings, sources=sources)
    rows = fit(
        data_arrays, expected_inputs(program.on_one_device), dtype=options.dtype, source=source_name
    )
    main = draft.graphs.main
    first = main.types[main.inputs[0]].shape[:1]
    batched = frozenset(
        str(value.name) for value in main.inputs if main.types[value].shape[:1] == first
    )
    if not first:
        raise InputError(
            f"{main.inputs[0].name} needs an axis of rows, such as B, to draw batches from: "
            "it is a scalar"
        )
    held = len(rows[str(main.inputs[0].name)]) // HELD
    source = ArraySource(rows, batched, options.batch, sha256, held, options.seed)
    loss = loss_of(program.graphs, options.loss)
    how = options.backend, options.kernels, options.accumulate or 1
    carrying = {name: array.shape for name, array in data_arrays.items()}
    carried_sizes = {**sizes_from_arrays(draft.graphs, carrying), str(first[0]): options.batch}
    sizes = {name: n for name, n in carried_sizes.items() if name in declared_dims(project)}
    return TrainingSetup(program, source, loss, settings, *how, sizes={**sizes, **settings})


def _arrays(draft: Program, path: Path) -> tuple[Arrays, str]:
    """The arrays of a file or of a folder of datasets, and the SHA-256 of what there is."""
    if not path.is_dir():
        return arrays.read(path), hashlib.sha256(files.read(path)).hexdigest()
    found = batches.stack_columns(path, [str(value.name) for value in draft.graphs.main.inputs])
    digest = hashlib.sha256()
    for name, array in found.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return found, digest.hexdigest()


def _number(program: Program, dim: Dim) -> int:
    """The number of a size that has one."""
    return dim.evaluate(program.graphs.main.sizes.bind({}))
