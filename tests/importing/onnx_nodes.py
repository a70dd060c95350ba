"""The node cases of the `onnx` package, imported: `python tests/importing/onnx_nodes.py`.

Without names it tries all cases and writes those that agree to `onnx_nodes.txt`. No case may
differ: what the language cannot say is refused.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = Path(__file__).with_name("onnx_nodes.txt")

if __name__ == "__main__":  # as `pythonpath` of the tests has it
    sys.path[:0] = [str(ROOT / part) for part in ("tests", "compiler", "runtime", "grammar")]

from xg.diagnostics.diagnostic import DiagnosticError  # noqa: E402 - found by the path above
from xg.driver import compile_project  # noqa: E402
from xg.frontend.project import parse_project  # noqa: E402
from xg_torch.importing.names import identifier  # noqa: E402
from xg_torch.importing.onnx_model import from_proto  # noqa: E402
from xg_torch.importing.onnx_module import import_model  # noqa: E402

DEFECTS: Final = ("XG0904", "XG0905")


def cases(*operators: str) -> dict[str, Any]:
    """The cases of some operators by their names, or all; they are made as their files are read."""
    from onnx.backend.test.case import node

    for operator in operators:
        import_module(f"{node.__name__}.{operator}")
    made = node._NodeTestCases if operators else node.collect_testcases()
    return {each.name: each for each in made if each.model is not None}


def outcome(case: Any) -> str:  # noqa: ANN401 - a TestCase of onnx
    """The outcome of a case: "agrees", "refused", "differs" or "defect", and why."""
    try:
        model = from_proto(case.model, case.name)
        made = import_model(model, case.name)
    except DiagnosticError as error:
        reasons = "; ".join(dict.fromkeys(each.message for each in error.diagnostics))
        broken = {each.code for each in error.diagnostics} & set(DEFECTS)
        return f"{'defect' if broken else 'refused'}: {reasons}"
    program = compile_project(parse_project(made.text.encode()))
    ((arrays, wanted),) = case.data_sets
    given = {
        identifier(each.name): array
        for each, array in zip(case.model.graph.input, arrays, strict=True)
    }
    inputs = {name: given.get(name, given.get(name.rstrip("_"))) for name in program.inputs}
    outputs, _ = program.load().forward(dict(made.params), inputs)
    off = 0.0
    for mine, its in zip(outputs.values(), wanted, strict=True):
        off = max(off, float(np.max(np.abs(mine - its) / (1 + np.abs(its)), initial=0.0)))
    return "agrees" if off < 1e-5 else f"differs: by {off:.1e}"


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    found = cases()
    agree: list[str] = []
    for name in sys.argv[1:] or found:
        said = outcome(found[name])
        sys.stdout.write(f"{name}\t{said}\n")
        sys.stdout.flush()
        agree += [name] if said == "agrees" else []
    if not sys.argv[1:]:
        TABLE.write_text("\n".join(agree) + "\n", encoding="utf-8", newline="\n")
