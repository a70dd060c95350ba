// Wiring: what pointer and keys do.

const stepAt = (target) => target.closest?.("[data-step]")?.dataset.step;
const lineAt = (target) => target.closest?.("[data-steps]")?.dataset.steps.split(" ").at(-1);

function openTab(id) {
  for (const tab of all("[role=tab]")) {
    const open = tab.getAttribute("aria-controls") === id;
    tab.setAttribute("aria-selected", open);
    tab.setAttribute("tabindex", open ? 0 : -1);
    element(tab.getAttribute("aria-controls")).hidden = !open;
  }
  if (current()) revealLines(current());
  showNumbers(current());
  remember();
}

/** Point at, focus and click things that belong to a step. */
function follow(area, idAt, reveal) {
  area.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const id = idAt(event.target) ?? null;
    touch(id);
    if (id && reveal) revealLines(id);
  });
  area.addEventListener("pointerleave", () => touch(null));
  area.addEventListener("click", (event) => {
    const id = idAt(event.target);
    if (id) keep(id);
    else if (area.id === "figures" && chosen.kept) letGo();
  });
}

follow(element("figures"), stepAt, true);
follow(element("code"), lineAt, false);
follow(element("table"), stepAt, true);
follow(element("sent"), stepAt, true);

element("figures").addEventListener("focusin", (event) => {
  const id = stepAt(event.target);
  if (!id) return;
  for (const node of all("[tabindex='0']", element("figures"))) node.setAttribute("tabindex", -1);
  event.target.setAttribute("tabindex", 0);
  touch(id);
  revealLines(id);
});
element("figures").addEventListener("focusout", () => touch(null));
element("figures").addEventListener("dblclick", (event) => {
  const step = steps.get(stepAt(event.target));
  if (step?.block !== undefined) enter(step.block);
});

/** From the part that has the focus to the next or the one before. */
function move(parts, by) {
  const here = parts.indexOf(document.activeElement);
  parts[Math.max(0, Math.min(here + by, parts.length - 1))]?.focus();
}

const moveNode = (by) => move([...new Set(stepsOf(chosen.place, chosen.view).map(nodeOf).filter(Boolean))], by);

function press(step) {
  if (step.block !== undefined) enter(step.block);
  else keep(step.id);
}

function letGo() {
  if (!chosen.kept) return leave();
  keep(chosen.kept);
}

const WAYS = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
const KEYS = {
  "+": () => zoomBy(STEP), "=": () => zoomBy(STEP), "-": () => zoomBy(1 / STEP), 0: fit,
  ArrowDown: () => moveNode(1), ArrowRight: () => moveNode(1), ArrowUp: () => moveNode(-1), ArrowLeft: () => moveNode(-1),
  Enter: (step) => press(step), " ": (step) => keep(step.id), Escape: letGo,
  b: () => { turn(chosen.view === "forward" ? "backward" : "forward"); firstNode()?.focus(); },
  n: advance, p: () => goTo(player.at - 1),
  r: () => runAxes.length && nextRank(1),
};
element("figures").addEventListener("keydown", (event) => {
  const step = steps.get(stepAt(event.target));
  if (!step || event.ctrlKey || event.altKey || event.metaKey || !KEYS[event.key]) return;
  event.preventDefault();
  const [x, y] = (event.shiftKey && WAYS[event.key]) || [];
  if (x === undefined) KEYS[event.key](step);
  else view.scrollBy(80 * x, 80 * y);
});

// Lines of code that compute something are buttons too; Tab goes to one of each listing.
for (const listing of all(".listing")) {
  const lines = all("[data-steps]", listing);
  lines.forEach((line, place) => {
    line.setAttribute("role", "button");
    line.setAttribute("tabindex", place ? -1 : 0);
  });
  listing.addEventListener("focusin", (event) => {
    if (!lines.includes(event.target)) return;
    for (const line of lines) line.setAttribute("tabindex", line === event.target ? 0 : -1);
    touch(lineAt(event.target));
    revealLine(event.target);
  });
  listing.addEventListener("focusout", () => touch(null));
  listing.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) move(lines, by);
    else if (event.key === "Enter" && lines.includes(event.target)) keep(lineAt(event.target));
    else return;
    event.preventDefault();
  });
}

const tabs = all("[role=tab]");
for (const tab of tabs) {
  tab.addEventListener("click", () => openTab(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length];
    openTab(next.getAttribute("aria-controls"));
    next.focus();
  });
}

for (const button of all("nav button")) {
  button.addEventListener("click", () => { above.push(chosen.place); openBlock(Number(button.dataset.block)); });
}
element("backward").addEventListener("change", (event) => turn(event.target.checked ? "backward" : "forward"));
element("overview").hidden = !drawingOf(0, "overview");
element("overview").addEventListener("click", () => turn(chosen.view === "overview" ? "forward" : "overview"));
element("previous").addEventListener("click", () => goTo(player.at - 1));
element("next").addEventListener("click", advance);
element("play").addEventListener("click", togglePlay);
element("at").addEventListener("input", (event) => goTo(Number(event.target.value)));
element("sizes").append(...facts.sizes.map(sizeRow));
element("mesh").append(...facts.mesh.map(sizeRow));
element("mesh").hidden = !facts.mesh.length;
if (runAxes.length) {
  element("axes").append(...rankPicker());
  element("ranks").hidden = false;
}
showBlock();
if (facts.tape) await loadNumbers();
readAddress();
addEventListener("popstate", readAddress);
document.body.dataset.ready = "";
