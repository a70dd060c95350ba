"""Models of other frameworks as `.xg` files: `torch.export` programs, read as data.

`archive` and `exported` read a file, `lower` turns aten operators into those of the legend,
`blocks` makes modules blocks and equal layers repetitions, `write` spells them, and `proof`
compares the result with the program that it is from. `trace` takes a model that is in memory.
"""

from xg_torch.importing.model import Imported, import_archive, import_exported, trace

__all__ = ["Imported", "import_archive", "import_exported", "trace"]
