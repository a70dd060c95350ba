"""Options that say nothing beside the other words of a command: they are refused, not ignored."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Final

from xg.codegen.backend import backends
from xg.diagnostics.lazy_dataclass import dataclass

Effect = Callable[[Namespace], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """An option of some commands, when it has an effect, and what it needs for one."""

    commands: tuple[str, ...]
    option: str
    has_effect: Effect
    needs: str


FIGURES: Final = frozenset({"svg", "pdf", "png", "tex", "dot"})
RANKS: Final = frozenset({"single", "exact"})
ARRAYS: Final = (".npz", ".safetensors")
SHARDS: Final = ".bin"


def _built(options: Namespace) -> frozenset[str]:
    """The kinds of files that a build makes: of one picture its own."""
    suffix = options.folder.suffix.removeprefix(".")
    if options.kinds is not None:
        return frozenset(options.kinds)
    if str(options.folder) == "-":
        return frozenset({"svg"})
    return frozenset({suffix}) if suffix in {*FIGURES, "html"} else FIGURES | {*backends()}


def _draws(options: Namespace) -> bool:
    return bool(_built(options) & FIGURES)


def _paints(options: Namespace) -> bool:
    return bool(_built(options) & (FIGURES - {"dot"}))


def _prints(options: Namespace) -> bool:
    is_pdf = _built(options) == frozenset({"pdf"})
    return is_pdf and not options.width and not options.steps


def _draws_overview(options: Namespace) -> bool:
    is_one = options.folder.suffix or str(options.folder) == "-" or options.view is not None
    is_overview = options.view == "overview" if is_one else True
    return _draws(options) and is_overview and options.plan is None


def _codes(options: Namespace) -> bool:
    return bool(_built(options) & {*backends()})


def _on_processes(options: Namespace) -> bool:
    return options.on == "processes"


def _proofs(options: Namespace) -> frozenset[str]:
    """The kinds of proof that a command asks for."""
    ranks = options.plan is not None or options.on is not None
    return frozenset(options.against or (RANKS if ranks else ("fd",)))


def _proves_ranks(options: Namespace) -> bool:
    return bool(_proofs(options) & RANKS) or _on_processes(options)


def _is_placed(options: Namespace) -> bool:
    """Whether one plan is named, which may have a pipeline: its action looks whether it has."""
    return options.plan not in (None, "*")


def _of_text(options: Namespace) -> bool:
    return options.data is None or options.data.suffix not in ARRAYS


def _of_shards(options: Namespace) -> bool:
    return options.data is not None and options.data.suffix == SHARDS


def _of_run(options: Namespace) -> bool:
    return Path(options.file).is_dir()


def _of_weights(options: Namespace) -> bool:
    return not _of_run(options)


def _draws_tokens(options: Namespace) -> bool:
    return options.temperature > 0


def _optimizes(by: str) -> Effect:
    return lambda options: options.optimizer == by


def _given(*names: str) -> Effect:
    """Where one of these options is given."""
    return lambda options: any(getattr(options, name) is not None for name in names)


def _lacks(name: str) -> Effect:
    """Where an option is not given."""
    return lambda options: getattr(options, name) is None


RULES: Final = (
    Rule(
        ("build", "check", "fmt"),
        "--stdin-filename",
        lambda options: "-" in options.files,
        "is of standard input: - in place of FILE",
    ),
    Rule(("build",), "--kernels", _codes, f"changes code: --only {','.join(backends())}"),
    Rule(("build",), "--theme", _draws, "colours figures: --only svg"),
    Rule(("build",), "--legend", _draws, "is a part of figures: --only svg"),
    Rule(("build",), "--no-title", _draws, "is for figures: --only svg"),
    Rule(("build",), "--depth", _draws_overview, "is of overviews of one device: --pass overview"),
    Rule(("build",), "--direction", _draws, "is for figures: --only svg"),
    Rule(("build",), "--width", _draws, "is for figures: --only svg"),
    Rule(
        ("build",),
        "--paper",
        _prints,
        "makes pages of a PDF, as wide as the paper: -o figure.pdf, without --width and --steps",
    ),
    Rule(("build",), "--steps", _paints, "is for pictures: --only svg"),
    Rule(
        ("show",),
        "--map",
        lambda options: options.form == "dtensor",
        "is about a module of yours: --as dtensor",
    ),
    Rule(("show", "cost"), "--stage", _is_placed, "is of a pipeline: --plan NAME"),
    Rule(
        ("cost",),
        "--full",
        lambda options: not options.json and options.plan != "*",
        "is a longer text about one plan: leave --json and --plan '*' out",
    ),
    Rule(("cost",), "--microbatches", _is_placed, "is of a pipeline: --plan NAME"),
    Rule(("cost",), "--timeline", _is_placed, "is of a pipeline: --plan NAME"),
    Rule(
        ("compare",),
        "--timeout",
        lambda options: options.plan is not None and options.module is not None,
        "is of a module on several ranks: --module MODULE:BUILD --plan NAME",
    ),
    Rule(("train",), "--pipeline-schedule", _is_placed, "is of a pipeline: --plan NAME"),
    Rule(("verify",), "--plan", _proves_ranks, "is for proofs of ranks: --against single,exact"),
    Rule(("verify",), "--on", _proves_ranks, "is for proofs of ranks: --against single"),
    Rule(
        ("verify",),
        "--every-choice",
        lambda options: bool(_proofs(options) - {"document"}),
        "is for proofs, and the examples of a document choose: --against fd",
    ),
    Rule(
        ("verify",),
        "--kernels",
        lambda options: bool(_proofs(options) - {"document", "exact"}),
        "changes code, which runs in floats: --against fd or single",
    ),
    Rule(
        ("run", "export"),
        "--seed",
        _lacks("params"),
        "draws parameters, and --params gives them all",
    ),
    Rule(
        ("weights",),
        "--dtype",
        _given("out", "to"),
        "is of what is written: -o FILE or --to FOLDER",
    ),
    Rule(("train",), "--tokenizer", _of_text, "cuts a text, and --data has rows of arrays"),
    Rule(("train",), "--level", _of_text, "is of a text's tokens, and --data has rows of arrays"),
    Rule(
        ("train",),
        "--level",
        _lacks("tokenizer"),
        "is of bytes or characters, and --tokenizer has tokens of its own",
    ),
    Rule(
        ("train",),
        "--level",
        lambda options: not (_of_shards(options) or (options.data and options.data.is_dir())),
        "is of a text's tokens, and --data has tokens already",
    ),
    Rule(("train",), "--token-type", _of_shards, "is of shards: --data 'shard_*.bin'"),
    Rule(("train",), "--seq", _of_text, "cuts a text, and --data has rows of arrays"),
    Rule(("train",), "--sample", _of_text, "continues a text, and --data has rows of arrays"),
    Rule(("generate",), "--diagram", _of_run, "is for the folder of a run"),
    Rule(("generate",), "--previous", _of_run, "is for the folder of a run"),
    Rule(("generate",), "--names", _of_weights, "is for --weights, and a run has names of its own"),
    Rule(
        ("generate",), "--dtype", _of_weights, "is for --weights, and a run has been trained in one"
    ),
    Rule(("generate",), "--seed", _draws_tokens, "draws tokens: --temperature above 0"),
    Rule(
        ("ops",),
        "--figure",
        lambda options: options.name is None and not options.json,
        "draws the whole notation: leave NAME and --json out",
    ),
    Rule(
        ("run", "verify", "train"),
        "--timeout",
        _on_processes,
        "is for ranks that are processes: --on processes",
    ),
    Rule(
        ("run", "export"),
        "--names",
        _given("params"),
        "says what the tensors of a checkpoint are: --params FILE",
    ),
    Rule(("train",), "--momentum", _optimizes("sgd"), "is for --optimizer sgd"),
    Rule(("train",), "--weight-decay", _optimizes("adamw"), "is for --optimizer adamw"),
    Rule(
        ("plan",),
        "--between",
        lambda options: options.ranks > options.node,
        "is for several nodes: --ranks above --node",
    ),
    Rule(
        ("compare",),
        "--params",
        _lacks("module"),
        "is for --against, and a module has weights of its own",
    ),
    Rule(
        ("compare",),
        "--as-is",
        _lacks("against"),
        "is of a module's weights: --module MODULE:BUILD",
    ),
    Rule(
        ("compare",),
        "--dropout",
        lambda options: options.against is None and options.plan is None,
        "gives masks to a module on one device: --module MODULE:BUILD without --plan",
    ),
    Rule(
        ("compare",),
        "--seed",
        _lacks("against"),
        "draws inputs for a module: --module MODULE:BUILD",
    ),
    Rule(("train",), "--prompt", lambda options: options.sample > 0, "begins a --sample"),
    Rule(("train",), "--temperature", lambda options: options.sample > 0, "is for a --sample"),
    Rule(
        ("generate",), "--top-k", _draws_tokens, "chooses among drawn tokens: --temperature above 0"
    ),
    Rule(
        ("generate",), "--top-p", _draws_tokens, "chooses among drawn tokens: --temperature above 0"
    ),
    Rule(("explain",), "--tokenizer", _given("text"), "cuts a --text into tokens"),
)


def without_effect(name: str, options: Namespace) -> str | None:
    """The complaint about the first option of a command that has no effect, if any."""
    written = {word.partition("=")[0] for word in options.words}
    for rule in RULES:
        if name in rule.commands and rule.option in written and not rule.has_effect(options):
            return f"xg {name}: {rule.option} {rule.needs}"
    return None
