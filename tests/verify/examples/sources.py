"""Documents to try: small ones as text, and the one of the gallery."""

from pathlib import Path

from xg.frontend.examples import BoundExample, documents
from xg.frontend.project import parse_project, read_project
from xg.syntax import ast
from xg.verify.claim_check import Judged, judge

DIAGRAMS = Path(__file__).parents[3] / "diagrams"
CAT_SLEEPS = DIAGRAMS / "examples" / "cat_sleeps.xg"

NET = """\
dim B, D
block Net(X [B, D], t [B, D]) -> Y [B, D], loss [] {
    param W [D, D], g [D] = ones
    X -> •<=W : U -> ⊙<-BC(g) -> tanh : H
      -> •<=T(W) : Y
      -> MSE<-t : loss
}
"""
GIVEN = "    given X = [[0.5, -1.0], [0.25, 2]], t = [[0, 1], [1, 0]], W = [[1, 0.5], [-0.5, 2]]\n"


def document(claims: str, given: str = GIVEN, block: str = NET) -> BoundExample:
    """The example of one block with these claims."""
    text = f'{block}example "a document" of Net {{\n{given}{claims}}}\n'
    (found,) = documents(parse_project(text.encode()))
    return found


def judged(claims: str, given: str = GIVEN, block: str = NET) -> list[Judged]:
    """The verdicts on them."""
    return list(judge(document(claims, given, block)))


def examples(path: Path) -> tuple[ast.Example, ...]:
    """The examples of a file as they are written."""
    return read_project(path).main.examples
