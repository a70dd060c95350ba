"""Models of other frameworks as `.xg` files: `torch.export` programs, read as data.

`archive` and `exported` read a file, `lower` turns aten operators into those of the legend,
`fold` makes modules blocks and equal layers repetitions, `write` spells them.
"""

from xg.importing.model import Imported, import_archive, import_exported

__all__ = ["Imported", "import_archive", "import_exported"]
