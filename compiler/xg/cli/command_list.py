"""The commands: `commands/NAME.py` has the arguments of each, `actions/run_NAME.py` does it."""

from __future__ import annotations

COMMANDS = {
    "new": "write a small project that works, to be changed",
    "build": "write figures and code",
    "serve": "show figures, code and costs in the browser, new at each save",
    "check": "look for errors in names, shapes and sizes, in every choice of options",
    "show": "print one view: the graph, a figure's DOT, the code, the cost",
    "fmt": "lay files out in the one canonical way",
    "run": "run a diagram on arrays from files",
    "weights": "read a published checkpoint for a diagram, or write one",
    "verify": "prove gradients by differences, and code by the interpreter, at the edges too",
    "explain": "write a diagram with numbers as a page: every step worked, forward and backward",
    "cost": "count parameters, FLOPs, memory and communication; --plan '*' compares all plans",
    "plan": "search the quickest plan for so many ranks with so much memory",
    "diff": "tell what two compilations differ in: edges, collectives, costs",
    "compare": "run a torch module beside a diagram: the first edge where they part, and why",
    "train": "train a diagram on text or arrays",
    "generate": "write text with a model, published or trained here",
    "import": "write a model of torch or ONNX as a diagram, with its weights",
    "export": "write a block with its parameters as ONNX or a program of torch.export",
    "ops": "list the operators: signature, formula, gradient, glyph",
    "lsp": "serve an editor: errors as you type, shapes under the cursor, layout",
    "completion": "print what the Tab key completes in bash, zsh or fish",
    "man": "print the manual page: every command and option",
    "doctor": "say what was found on this machine, and how to fix it",
    "demo": "build the gallery, verify every gradient, train a model: some minutes",
}
