"""A module of a rank imports the functions that it calls, and nothing else."""

import pytest

from xg.codegen.emit.array_ops import imports


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("y = all_gather(x)", "all_gather"),
        ("y = z.all_gather(x)", ""),  # a method
        ("y = my_all_gather(x)", ""),
        ("y = all_gather_later(x)", ""),
        ("y = z.all_gather(all_gather(x))", "all_gather"),
        ("# all_gather(x)", ""),
        ("def f(mesh: Mesh) -> None: ...", "Mesh"),
        ("x: ranks.Mesh", "Mesh"),  # of a module, under its own name
        ("x: Meshes", ""),
        ("x: Own_Mesh", ""),
        ("check_mesh(Held)", "Held, check_mesh"),
    ],
)
def test_what_is_called_is_imported(code: str, named: str) -> None:
    assert imports(code).partition(" import ")[2] == (f"{named}\n" if named else "")
