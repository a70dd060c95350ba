"""Pages without a fault that eyes would find; `python -m browser.looks_sweep` sees more of them."""

from __future__ import annotations

import pytest
from browser.chromium import script
from browser.conftest import Open
from browser.elements import one
from browser.looks import faults, out_of_reach
from pages.explain.pages import page as explanation

from xg_pages.explain.html import html


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1400, "light")])
def test_pages_have_no_fault(opened: Open, width: int, scheme: str) -> None:
    driver = opened("mlp", width=width, scheme=scheme)
    for tab in ("code", "numbers", "costs"):
        one(driver, f"#tab-{tab}").click()
        assert faults(driver) == [], tab
    driver = opened(text=html(explanation("cat_sleeps")).text, width=width, scheme=scheme)
    assert faults(driver) == []


def test_every_control_is_reached_by_keys(opened: Open) -> None:
    assert out_of_reach(opened("mlp")) == []


PLANTED = {
    "wider than the window": '<p style="width: 2000px">wide</p>',
    "cut": '<div style="width: 40px; overflow: hidden; white-space: nowrap">far too long</div>',
    "overlap": '<p style="margin: 0">under</p><p style="margin: -1em 0 0">over</p>',
    "too small for its text": '<button style="width: 30px; padding: 0">long words</button>',
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(opened: Open, fault: str) -> None:
    driver = opened(text=f"<body><button>one</button>{PLANTED[fault]}")
    assert {found.partition(":")[0] for found in faults(driver)} == {fault}


def test_what_no_key_reaches_is_found(opened: Open) -> None:
    driver = opened(text="<body><button>one</button><button tabindex=-1>two</button>")
    assert out_of_reach(driver) == ['<button tabindex="-1">two</button>']
    trap = "document.querySelector('button').onkeydown = (event) => event.preventDefault()"
    driver = opened(text="<body><button>one</button><a href='#'>two</a>")
    script(driver, trap)
    assert out_of_reach(driver) == ['<a href="#">two</a>']
