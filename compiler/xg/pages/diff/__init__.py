"""What two compilations differ in: edges, collectives, and what a rank of either costs.

edges     every tensor of a program, forward and backward, as one rank holds it
compare   two programs edge by edge, collective by collective
figure    the forward figure of the second, with what changed in it marked
"""

from xg.pages.diff.compare import Change, Difference, Side, compare
from xg.pages.diff.edge_keys import Edge
from xg.pages.diff.figure import changed_figure

__all__ = ["Change", "Difference", "Edge", "Side", "changed_figure", "compare"]
