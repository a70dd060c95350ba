"""Errors in a model that is imported (XG09xx)."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Diagnostic, Problem

OURS = "this is a bug in `xg import`, and nothing was written: please report the model"
OTHER_TABLE = "it multiplies by a table of constants other than rotary positions"


class NotAnArchive(Problem):
    """A file that `torch.export.save` did not write, or that is damaged."""

    code = "XG0901"
    title = "{file} is not a torch.export program: {reason}"
    fix = "write one with torch.export.save(torch.export.export(model, inputs), 'model.pt2')"
    file: str
    reason: str


class NotSpoken(Problem):
    """An operator of the model that the language does not have."""

    code = "XG0902"
    title = "{operator} in {where}: {reason}"
    operator: str
    where: str
    reason: str
    help: str = ""
    line: str = ""  # of the user's source, which the operator is from

    def helps(self) -> tuple[str, ...]:
        """The advice, and the line to change."""
        lines = super().helps()
        return (*lines, f"it comes from {self.line}") if self.line else lines


class NotAnInput(Problem):
    """An input, output or weight of the model that the language cannot express."""

    code = "XG0903"
    title = "{name}: {reason}"
    name: str
    reason: str
    help: str = ""


class NotTraced(Problem):
    """A model that `torch.export` cannot trace with the inputs of the example."""

    code = "XG0906"
    title = "torch.export cannot trace {name}: {reason}"
    fix = "for the full reason, run torch.export.export(model, inputs)"
    name: str
    reason: str


class NotLoaded(Problem):
    """A folder or a function without a model to import."""

    code = "XG0907"
    title = "{name}: {reason}"
    name: str
    reason: str
    help: str = ""


class DoesNotCheck(Problem):
    """An imported diagram with an error, which is a defect of `xg import`."""

    code = "XG0904"
    title = "the imported diagram has an error ({mistake}): {message}{where}"
    fix = OURS
    mistake: str
    message: str
    where: str

    @classmethod
    def of(cls, diagnostic: Diagnostic) -> DoesNotCheck:
        """The first error in the diagram."""
        span = diagnostic.span
        line = span.source.line_text(span.line).strip() if span else ""
        return cls(diagnostic.code, diagnostic.message, f" in `{line}`" if line else "")


class NotTheModel(Problem):
    """An imported diagram that differs from the model, which is a defect of `xg import`."""

    code = "XG0905"
    title = "the diagram differs from the model: {name}: {reason}"
    fix = OURS
    name: str
    reason: str


class NotTheExport(Problem):
    """A model with other outputs or gradients than its exported program."""

    code = "XG0909"
    title = "{name} of the model differs from its torch.export program: {reason}"
    fix = (
        "a hook, the backward of an autograd.Function, or a branch on sizes can cause this: xg "
        "derives the gradient from one forward pass for all sizes"
    )
    name: str
    reason: str
    help: str = ""  # where the difference may be from


class NotDerived(Problem):
    """A model whose gradient PyTorch can't compute, so that there is nothing to compare with."""

    code = "XG0910"
    title = "PyTorch cannot compute the gradient of the model: {reason}"
    fix = "write h = h + x for h += x, and x = f(x) for f(x, inplace=True)"
    reason: str


class NotFinite(Problem):
    """A model whose outputs are not finite at any inputs that xg tries."""

    code = "XG0908"
    title = (
        "the outputs are not finite, so xg cannot compare them: it tried inputs around 0, "
        "between 0 and 1, and between 1 and 2"
    )
    fix = "bound the arguments of roots and logarithms, as in torch.log(x.clamp(min=1e-6))"


class Unspeakable(Exception):
    """Carries the reason why a node cannot be said out of the rule that found it."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


def first_line(error: BaseException | None) -> str:
    """Return the type and the first line of another package's error."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
