"""The additions of pages to xg."""

from __future__ import annotations

from xg.packages import Package, PrintedForm

PACKAGE = Package(
    "xg_pages",
    "pages to read and explore: explorer, explanations, differences, notebooks, Sphinx",
    commands={
        "serve": "show figures, code and costs in the browser, and update them when you save",
        "explain": "explain a diagram with numbers step by step, or an error by its code",
        "diff": "show what differs between two versions or plans: edges, collectives, costs",
    },
    forms={"html": PrintedForm("the explorer's page", "xg_pages.show_page:show")},
    services={"explore": "xg_pages.explorer:explore", "explorer": "xg_pages.notebook:explorer"},
    names={"load_ipython_extension": "xg_pages.notebook:load_ipython_extension"},
)
