"""Warnings of `xg check` about a file as a whole."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Diagnostic, Fix, Label, ProblemAt
from xg.diagnostics.source import Span
from xg.syntax.declarations import left_out


class Unused(ProblemAt):
    """Something with a name that nothing uses: a warning."""

    code = "XG0225"
    title = "nothing uses the {kind} {name}"
    severity = "warning"
    kind: str
    name: str
    help: str
    whole: Span | None = None  # what to leave out

    def fixes(self) -> tuple[Fix, ...]:
        if self.whole is None:
            return ()
        if self.kind == "edge":
            return (Fix(f"leave {self.name} out", ((self.whole, ""),)),)
        return left_out(self.whole, self.name)


class UntriedChoices(ProblemAt):
    """More combinations of options than are checked, so that each word is met once: a warning."""

    code = "XG0226"
    title = (
        "the options of {block} have {count} combinations: every word was checked, not every "
        "combination"
    )
    severity = "warning"
    fix = "check one with --set {option}=…, or let fewer options meet in a block"
    block: str
    count: str
    option: str


class LossOperand(ProblemAt):
    """A loss of logits that gets probabilities, or the other way round: a warning."""

    code = "XG0227"
    severity = "warning"
    loss: str
    made_by: str
    takes: str  # probabilities, logits (of yes or no) or classes

    def fixes(self) -> tuple[Fix, ...]:
        name, start = self.loss, self.span.start
        rest = self.span.text.removeprefix(name).lstrip()
        if self.takes != "probabilities" or rest == self.span.text or rest.startswith("("):
            return ()
        own = Span(self.span.source, start, start + len(name))
        return (Fix.replace(own, f"{name}(form=logits)"),)

    def diagnostic(self) -> Diagnostic:
        """Say what the loss takes and what it gets, and both ways to bring them together."""
        if self.takes == "probabilities":
            title = (
                f"{self.loss} takes probabilities, and {self.made_by} makes numbers beyond 0 … 1"
            )
            advice = f"write -> sigmoid -> {self.loss}, or {self.loss}(form=logits) without it"
        else:
            own = "softmax" if self.takes == "classes" else "sigmoid"
            title = f"{self.loss} takes logits, and {self.made_by} makes probabilities of them"
            advice = (
                f"leave {self.made_by} out in front of {self.loss}, which has a {own} of its own"
            )
        return self.report(title, Label(self.span), help=(advice,))


class ExchangedNames(ProblemAt):
    """Results or parameters of a node under each other's names: a warning."""

    code = "XG0271"
    title = "{node} {gives} {names} in this order, and the text has these names in another"
    severity = "warning"
    node: str
    gives: str
    names: str
    meant: str

    def helps(self) -> tuple[str, ...]:
        """Their order, and how to say that the other one is meant."""
        return (f"write {self.meant}", "if the order is meant, give them other names")


class ReorderedAxes(ProblemAt):
    """An axis that is merged from two and split into them in the other order: a warning."""

    code = "XG0272"
    title = "R keeps the order of elements: {last} behind {merged} is not {first} with axes moved"
    severity = "warning"
    first: str
    merged: str
    last: str

    def helps(self) -> tuple[str, ...]:
        """One step that moves the axes, and how this is said to be meant."""
        return (
            f"`-> T : NAME {self.last}` of {self.first} moves them",
            "if this order is meant, name the axes in a map: R[b, (d, s) -> b, d, s]",
        )


class ExchangedAxes(ProblemAt):
    """An operand that has the names of a port's axes in another order: a warning."""

    code = "XG0228"
    title = "{taker} takes {port} {axes}, and {found} arrives: axes are bound by their places"
    severity = "warning"
    label = "{apart}"
    taker: str
    port: str
    axes: str
    found: str
    apart: str  # each axis that means another one
    whole: bool  # whether the operand has all axes of the port, and no other
    over: str = ""  # the axis that a loop was likely meant to go over

    def helps(self) -> tuple[str, ...]:
        """The order that was likely meant, and how to say that this one is."""
        order = f"-> T : {self.axes}" if self.whole else "T, with the shape on its label,"
        likely = f"{order} in front brings them into this order"
        if self.over:
            likely = f"a round is given {self.axes} by `{self.taker} over {self.over}`"
        return (
            likely,
            f"if the order is meant, give the axes of {self.taker} names of their own",
        )
