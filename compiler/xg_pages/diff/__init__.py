"""Differences between two compilations: edges, collectives, and the cost of a rank.

compare    every tensor of both programs as a rank holds it, edge by edge; collectives; costs
report     the difference as JSON, as tables and as the forward figure, marked

Edges are paired by name, because names are the author's and survive plans, options and most edits.
Aligning graphs by structure finds a renamed edge, and now and then a wrong one without saying so.
"""

from xg_pages.diff.compare import Change, Difference, Edge, Side, compare
from xg_pages.diff.report import changed_figure

__all__ = ["Change", "Difference", "Edge", "Side", "changed_figure", "compare"]
