"""Differences between two compilations: edges, collectives, and the cost of a rank.

steps      the steps that two graphs share, and how each makes its edges
edge_keys  every tensor of a program, forward and backward, as one rank holds it
compare    two programs edge by edge, collective by collective
figure     the forward figure of the second: changes marked, what only the first has as ghosts
report     the difference as JSON and as tables

Edges are paired by name, because names are the author's and survive plans, options and most edits.
Aligning graphs by structure finds a renamed edge, and now and then a wrong one without saying so.
"""

from xg_pages.diff.compare import Change, Difference, Edge, Side, compare
from xg_pages.diff.figure import changed_figure

__all__ = ["Change", "Difference", "Edge", "Side", "changed_figure", "compare"]
