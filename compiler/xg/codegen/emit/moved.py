"""The functions that move running statistics by what a forward pass has saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.codegen.emit.line_breaks import bracketed, indented
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.spelling import Scope
from xg.ir.graph import Call, Graph, Value
from xg.ir.moving import moving

DOC: Final = (
    '"""Running statistics after a batch of training, of what `forward` saved under a seed.',
    "",
    "To be called before `backward`, and put in the place of those among the parameters.",
    '"""',
)


def move_function(plan: ModulePlan, graph: Graph, fields: Mapping[Value, str]) -> list[str]:
    """The function of a block: for its own parameters, then for those of its calls."""
    name, path = plan.functions[graph.key], plan.has_path(graph)
    items = ["params: Params", *(["at: str"] if path else []), f"saved: {plan.classes[graph.key]}"]
    lines: list[str] = []
    for each in moving(graph):
        place = f'f"{{at}}.{each.param.name}"' if path else f'"{each.param.name}"'
        share = Scope(graph.sizes).number(each.share).text
        near = f"saved.{fields[each.target]}"
        args = [f"params[{place}]", near, share]
        lines += bracketed(f"params[{place}] = _toward(", args, ")", 4)
    for call in graph.calls:
        if call.callee in plan.moved:
            lines += _call_lines(plan, call, path, fields[call.saved])
    plan.helpers["toward"] = None
    return [
        *bracketed(f"def move_{name}(", items, ") -> None:"),
        f'    """Move the running statistics of `{name}`, in place."""',
        *indented(lines),
    ]


def _call_lines(plan: ModulePlan, call: Call, path: bool, field: str) -> list[str]:
    """Lines for the saved values of a call, or of each of its rounds."""
    function = f"move_{plan.functions[call.callee]}"
    rows = call.rounds is not None
    below = f"{call.path}.{{i}}" if call.count is not None else call.path
    is_text = path or call.count is not None
    at = f'f"{{at}}.{below}"' if path else f'f"{below}"' if is_text else f'"{below}"'
    saved = "one" if rows else f"saved.{field}"
    args = ["params", *([at] if plan.has_path(plan.program.graphs[call.callee]) else []), saved]
    if not rows:
        return bracketed(f"{function}(", args, ")", 4)
    inside = indented(bracketed(f"{function}(", args, ")", 8))
    if call.count is None:
        return [f"for one in saved.{field}:", *inside]
    first = f", {call.first}" if call.first else ""
    return [f"for i, one in enumerate(saved.{field}{first}):", *inside]


def moved_function(plan: ModulePlan, saved_class: str) -> list[str]:
    """The public function."""
    head = bracketed("def moved(", ["params: Params", f"saved: {saved_class}"], ") -> Params:")
    entry = plan.functions[plan.program.entry]
    kept = "{name: array for name, array in changed.items() if array is not params[name]}"
    body = ["changed = dict(params)", f"move_{entry}(changed, saved)", f"return {kept}"]
    return [*head, *indented([*DOC, *body])]
