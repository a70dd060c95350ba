// What is chosen: a block, a pass, an operator; and how the figure and the code show it.

const chosen = { place: 0, view: "forward", kept: null, touched: null };
const above = []; // the blocks through which one came here
const current = () => chosen.touched ?? chosen.kept;

function openBlock(place, view = chosen.view) {
  chosen.place = place;
  chosen.view = drawingOf(place, view) ? view : "forward";
  chosen.kept = chosen.touched = null;
  showBlock();
}

function enter(place) {
  above.push(chosen.place);
  openBlock(place);
  firstNode()?.focus();
}

function leave() {
  if (above.length) openBlock(above.pop());
}

function turn(view) {
  if (view === chosen.view || !drawingOf(chosen.place, view)) return;
  const shown = current();
  chosen.view = view;
  chosen.touched = null;
  if (shown) chosen.kept = [...family(shown)].find((id) => steps.get(id).view === view) ?? null;
  showBlock();
}

/** Bring the chosen block and pass before the reader. */
function showBlock() {
  const drawing = drawingOf(chosen.place, chosen.view);
  for (const holder of all(".figure")) holder.hidden = holder !== drawing.holder;
  for (const listing of all(".listing")) listing.hidden = !listing.dataset.of.startsWith(`${chosen.place}.`);
  for (const button of all("nav button")) button.setAttribute("aria-pressed", button.dataset.block == chosen.place);
  element("backward").checked = chosen.view === "backward";
  element("backward").disabled = !drawingOf(chosen.place, "backward");
  element("overview").setAttribute("aria-pressed", chosen.view === "overview");
  prepare(drawing);
  nameOperators();
  showView();
  showCosts();
  showPlayer();
  light();
  remember();
}

/** Make the operators of a figure buttons with names; the first can be reached by Tab. */
function nameOperators() {
  stepsOf(chosen.place, chosen.view).forEach((step) => {
    const node = nodeOf(step);
    if (!node) return;
    node.dataset.step = step.id;
    node.setAttribute("role", "button");
    node.setAttribute("tabindex", -1);
    node.setAttribute("aria-label", `${step.name}: ${step.equation}`);
  });
  firstNode()?.setAttribute("tabindex", 0);
}

const firstNode = () => stepsOf(chosen.place, chosen.view).map(nodeOf).find(Boolean);

function touch(id) {
  if (chosen.touched === id) return;
  chosen.touched = id;
  light();
}

function keep(id) {
  chosen.kept = chosen.kept === id ? null : id;
  light();
  remember();
}

// ---- light -------------------------------------------------------------------------------------

const mark = (parts, kind) => parts?.forEach((part) => part.classList.add(kind));

/** Light up the chosen operator, its neighbors, its lines and its costs. */
function light() {
  const id = current();
  for (const part of all(".on, .near, .also")) part.classList.remove("on", "near", "also");
  const drawing = drawingOf(chosen.place, chosen.view);
  drawing.svg.classList.toggle("lit", Boolean(id));
  if (id) {
    for (const each of family(id)) {
      mark(linesOf(new Set([each])), each === id ? "on" : "also");
      mark(all(`tr[data-step="${each}"]`), "on");
      if (steps.get(each).view === chosen.view) lightNode(drawing, steps.get(each));
    }
  }
  for (const node of all("[role=button]", drawing.svg)) node.setAttribute("aria-pressed", node.dataset.step === chosen.kept);
  showDetail(id);
  showNumbers(id);
}

function lightNode(drawing, step) {
  mark(drawing.parts.get(step.node), "on");
  for (const [tail, head] of drawing.edges) {
    if (tail !== step.node && head !== step.node) continue;
    mark(drawing.parts.get(`${tail}->${head}`), "near");
    mark(drawing.parts.get(tail === step.node ? head : tail), "near");
  }
}

/** Scroll a listing to the lines of an operator, and nothing else. */
function revealLines(id) {
  const line = linesOf(new Set([id]))[0];
  if (line && !element("code").hidden) revealLine(line);
}

/** Scroll a line to where the detail above it, which may have grown, does not cover it. */
function revealLine(line) {
  const side = element("side");
  const [inner, outer] = [line.getBoundingClientRect(), side.getBoundingClientRect()];
  const covered = element("detail").getBoundingClientRect().bottom;
  if (inner.top < covered || inner.bottom > outer.bottom) side.scrollTop += inner.top - (covered + outer.bottom) / 2;
}
