// The numbers of both passes, on every rank: computed here, shown as tables, and changed by the reader.

const SHOWN_AT_MOST = 40; // rows and columns
const PROBED_AT_MOST = 4000; // elements of an operand, times the steps to the result
const NOTHING = 1e-9; // what is smaller is the rounding error of a zero

const bodies = tape.bodies.map(prepared);
const mesh = onMesh(facts.runs.map((run) => run.at));
const given = tape.drawn.map((about) => ({ name: about[0], below: typeof about[2] === "number" ? about[2] : 0, cuts: about[3] ?? [], x: drawn(tape.seed, about) }));
const madeBy = [...given.map(() => -1)]; // of every slot the step
const firstOf = []; // of every step its first slot
tape.steps.forEach(([body], step) => {
  firstOf.push(madeBy.length);
  bodies[body].results.forEach(() => madeBy.push(step));
});
const changed = new Set();
const matrices = new Map(); // which matrix of a tensor is shown
const wholePlaces = new Map(); // of what is cut, where in the whole each element of a rank's part is
let slots = null;

const shardsOf = ({ x, cuts }) =>
  (cuts.length ? mesh.map((here) => cuts.reduce((all, [axis, over]) => part(all, axis, here.along(over)), x)) : mesh.map(() => x));

const step = (number, values, ranks = mesh) => {
  const [body, ...operands] = tape.steps[number];
  const key = tape.keys[number];
  return computed(bodies[body], operands.map(values), ranks, key && BigInt(key));
};

/** Every slot on every rank: both passes once more after every change. */
function run() {
  if (slots) return slots;
  slots = given.map(shardsOf);
  tape.steps.forEach((_, number) => slots.push(...step(number, (at) => slots[at])));
  return slots;
}

const slotOf = (block, place) => tape.slots[block]?.[place] ?? -1;
const tensorOn = (rank, block, place) => run()[slotOf(block, place)]?.[rank];

// ---- one tensor as a table ---------------------------------------------------------------------

const shortened = (value) => {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value < 0 ? "−∞" : "∞";
  if (Math.abs(value) < NOTHING) return "0";
  return String(Number(value.toPrecision(3))).replaceAll("-", "−");
};

/** The rows and columns that are shown: where each number is among all. */
function lying(x, matrix) {
  const [height, width] = [x.shape.at(-2) ?? 1, x.shape.at(-1) ?? 1];
  return Array.from({ length: Math.min(height, SHOWN_AT_MOST) }, (_, row) =>
    Array.from({ length: Math.min(width, SHOWN_AT_MOST) }, (_, column) => (matrix * height + row) * width + column));
}

function tensor(block, place, rank = page.rank()) {
  const value = block.values[place];
  const x = tensorOn(rank, block.place, place);
  const caption = make("figcaption", {}, make("b", {}, ...rich(value.name)), " ", ...rich(page.shapeText(value)));
  if (!x) return make("figure", {}, caption, make("p", { class: "quiet" }, "no number"));
  caption.append(x.shape.length ? ` = ${x.shape.join(" × ")}` : "");
  if (page.axes.length) caption.append(make("span", { class: "held" }, ...rich(heldHere(value, x, facts.runs[rank].at))));
  const slot = slotOf(block.place, place);
  const many = count(x.shape.slice(0, -2));
  const table = make("table", { "aria-label": value.name });
  const figure = make("figure", {}, caption, table);
  Object.assign(figure, { source: slot, rank, many, value });
  const choose = (by) => { matrices.set(slot, (matrixOf(figure) + by + many) % many); fill(figure); refresh(figure); };
  if (many > 1) caption.append(" ", turner("◀", `Previous matrix of ${value.name}`, () => choose(-1)), make("span", { class: "matrix" }), turner("▶", `Next matrix of ${value.name}`, () => choose(1)));
  fill(figure);
  refresh(figure);
  return figure;
}

const matrixOf = ({ source, many }) => Math.min(matrices.get(source) ?? 0, many - 1);

function turner(sign, name, act) {
  const button = make("button", { type: "button", class: "turner", "aria-label": name }, sign);
  button.addEventListener("click", act);
  return button;
}

/** The cells of the chosen matrix; those of what was drawn can be changed. */
function fill(figure) {
  const x = run()[figure.source][figure.rank];
  const lies = lying(x, matrixOf(figure));
  const [height, width] = [x.shape.at(-2) ?? 1, x.shape.at(-1) ?? 1];
  figure.classList.toggle("cut", height > lies.length || width > lies[0]?.length);
  figure.querySelector("table").replaceChildren(make("tbody", {}, ...lies.map((row, r) => make("tr", {}, ...row.map((at, c) => {
    const where = `${figure.value.name}, row ${r + 1}, column ${c + 1}`;
    const cell = make("td", { tabindex: r || c ? -1 : 0 });
    cell.at = at;
    if (!given[figure.source]) return cell;
    cell.removeAttribute("tabindex");
    cell.append(make("input", { inputmode: "decimal", autocomplete: "off", "aria-label": where, tabindex: r || c ? -1 : 0, size: 5 }));
    return cell;
  })))));
}

/** Put the numbers of now into the cells. */
function refresh(figure) {
  const { data } = run()[figure.source][figure.rank];
  const all = [...figure.querySelectorAll("td")];
  const largest = Math.max(...all.map(({ at }) => data[at]).filter(Number.isFinite).map(Math.abs), 1e-30);
  const spot = figure.querySelector(".matrix");
  if (spot) spot.textContent = `matrix ${matrixOf(figure) + 1} of ${figure.many}`;
  for (const cell of all) {
    const value = data[cell.at];
    const box = cell.firstElementChild;
    cell.className = value < 0 ? "below" : "above";
    cell.title = String(value);
    cell.style.setProperty("--share", `${Math.round(Number.isFinite(value) ? (Math.abs(value) / largest) * 55 : 0)}%`);
    if (!box) cell.textContent = shortened(value);
    else {
      cell.classList.toggle("mine", changed.has(`${figure.source} ${globalAt(figure, cell.at)}`));
      if (document.activeElement !== box) box.value = shortened(value);
    }
  }
}

const figures = () => [...panel.querySelectorAll("figure")].filter((figure) => figure.source >= 0);

// ---- your numbers ------------------------------------------------------------------------------

/** Where an element of a rank's part is in the whole. */
function globalAt({ source, rank }, at) {
  const { x, cuts } = given[source];
  if (!cuts.length) return at;
  if (!wholePlaces.has(source)) wholePlaces.set(source, shardsOf({ cuts, x: filled(x.shape, (each) => each) }));
  return wholePlaces.get(source)[rank].data[at];
}

const below = (figure) => given[figure.source].below;
const isNumber = (figure, text) => {
  const value = Number(text);
  if (!text.trim() || !Number.isFinite(value)) return false;
  return !below(figure) || (Number.isInteger(value) && value >= 0 && value < below(figure));
};

function change(figure, box) {
  const text = box.value.replaceAll("−", "-").replace(",", ".");
  const fine = isNumber(figure, text);
  box.setAttribute("aria-invalid", !fine);
  tell(fine ? "" : `${figure.value.name} takes ${below(figure) ? `whole numbers from 0 to ${below(figure) - 1}` : "numbers"}, not ${box.value.trim() || "nothing"}`);
  if (!fine) return;
  const at = globalAt(figure, box.parentNode.at);
  set(figure.source, at, Number(text));
}

function set(slot, at, value) {
  given[slot].x.data[at] = value;
  changed.add(`${slot} ${at}`);
  computeAgain();
}

function computeAgain() {
  slots = null;
  figures().forEach(refresh);
  panel.querySelector("#again")?.toggleAttribute("hidden", !changed.size);
  page.changed();
}

function drawAgain() {
  given.forEach((each, place) => { each.x = drawn(tape.seed, tape.drawn[place]); });
  changed.clear();
  tell("");
  computeAgain();
}

const tell = (text) => { panel.querySelector("#wrong").textContent = text; };

// ---- where a number comes from -----------------------------------------------------------------

const resultsOf = (number) => bodies[tape.steps[number][0]].results.map((_, place) => firstOf[number] + place);

/** The steps from a slot to a result, in order: of a call those of its block; none through `fixed` slots. */
function stepsBetween(source, result, fixed) {
  const [reached, wanted] = [new Set([source]), new Set([result])];
  const found = [];
  for (let number = 0; number <= madeBy[result]; number += 1) {
    if (!tape.steps[number].slice(1).some((slot) => reached.has(slot))) continue;
    const made = resultsOf(number).filter((slot) => !fixed.has(slot));
    if (made.length) found.push(number);
    for (const slot of made) reached.add(slot);
  }
  return found.reverse().filter((number) => {
    if (!resultsOf(number).some((slot) => wanted.has(slot) && !fixed.has(slot))) return false;
    for (const slot of tape.steps[number].slice(1)) wanted.add(slot);
    return true;
  }).reverse();
}

const exchanges = (number) => mesh.length > 1 && bodies[tape.steps[number][0]].nodes.some(({ prim }) => EXCHANGED[prim]);

/** Mark the cells of other tensors that a cell of a result is made of. */
function trace(figure, at) {
  untrace();
  if (madeBy[figure.source] < 0) return;
  run();
  const usual = slots[figure.source][figure.rank].data[at];
  const shown = new Set(figures().map(({ source }) => source));
  shown.delete(figure.source);
  for (const other of figures()) {
    const between = stepsBetween(other.source, figure.source, shown);
    const cells = [...other.querySelectorAll("td")];
    if (!between.length || cells.length * between.length > PROBED_AT_MOST || between.some(exchanges)) continue;
    const x = slots[other.source][other.rank];
    for (const cell of cells) {
      // Through several steps NaN would reach what a mask has made nothing of: 0 times NaN is NaN.
      const first = between.length > 1 ? x.data[cell.at] + 0.37 : NaN;
      const moved = [first, x.data[cell.at] + 1e3, x.data[cell.at] - 1e3].some((probe) => {
        const probed = new Map([[other.source, array(x.shape, x.data.with(cell.at, probe))]]);
        const here = (slot) => [probed.get(slot) ?? slots[slot][figure.rank]];
        for (const number of between) {
          const made = step(number, here, [mesh[figure.rank]]);
          resultsOf(number).forEach((slot, place) => shown.has(slot) || probed.set(slot, made[place][0]));
        }
        return !Object.is(probed.get(figure.source).data[at], usual);
      });
      cell.classList.toggle("source", moved);
    }
  }
  figure.querySelectorAll("td").forEach((cell) => cell.classList.toggle("traced", cell.at === at));
}

const untrace = () => panel.querySelectorAll(".source, .traced").forEach((cell) => cell.classList.remove("source", "traced"));

// ---- ranks -------------------------------------------------------------------------------------

/** What a rank holds of a tensor: slice 4:8 of D_ff = 8, in zigzag two slices; a term of the sum over N_T. */
function heldHere({ lies }, { shape }, at) {
  const slices = new Map();
  const rest = { P: [], M: [], same: [] };
  for (const axis of page.axes) {
    const lie = lies[axis];
    if (!Array.isArray(lie)) rest[lie ?? "same"].push(axis);
    else {
      const { place = 0, ranks = 1, zigzag = false } = slices.get(lie[0]) ?? {};
      const here = page.rankCount(axis);
      const order = zigzag || Boolean(lie[2]);
      slices.set(lie[0], { whole: lie[1], place: place * here + at[axis], ranks: ranks * here, zigzag: order });
    }
  }
  const parts = [...slices].map(([axis, { whole: name, place, ranks, zigzag }]) => {
    const length = shape[axis];
    if (zigzag) return `two slices of ${page.spell(name)} = ${length * ranks}, one from each end`;
    return `slice ${place * length}:${(place + 1) * length} of ${page.spell(name)} = ${length * ranks}`;
  });
  if (rest.P.length) parts.push(`a term of the sum over ${rest.P.join(", ")}`);
  if (rest.M.length) parts.push(`a maximum, of all over ${rest.M.join(", ")}`);
  if (rest.same.length) parts.push(`the same over ${rest.same.join(", ")}`);
  return parts.join("; ");
}

/** What a collective takes from every rank of its group, and what it gives to each. */
function exchanged(about, over) {
  const group = mesh[page.rank()].group(over);
  return [
    ...oneSide(about, about.reads[0], group, `From ${group.length} ranks along`, over),
    ...oneSide(about, about.makes[0], group, `To ${group.length} ranks along`, over),
  ];
}

/** What the ranks of a group hold of a tensor: of what all hold alike, what one has. */
function oneSide(about, place, group, title, over) {
  const [first, ...others] = group.map((rank) => tensorOn(rank, about.place, place));
  const alike = others.every((x) => x === first || x.data.every((value, at) => Object.is(value, first.data[at])));
  const parts = (alike ? [page.rank()] : group).map((rank) => {
    const here = rank === page.rank() ? { "aria-current": "true" } : {};
    return make("div", here, make("p", {}, make("b", {}, facts.runs[rank].name)), tensor(page.blocks[about.place], place, rank));
  });
  return [make("h3", {}, `${title} `, ...rich(over), alike ? ", to all the same" : ""), make("div", { class: "group" }, ...parts)];
}

// ---- the panel ---------------------------------------------------------------------------------

const panel = page.panel;

/** Both passes of a block at a glance: what can be changed, and what comes out. */
function overview(block) {
  const all = [...block.values.keys()];
  const steps = [...block.forward, ...block.backward];
  const read = new Set(steps.flatMap(({ reads }) => reads));
  const ends = (view) => view.flatMap(({ makes }) => makes).filter((place) => !read.has(place));
  const own = all.filter((place) => given[slotOf(block.place, place)] || block.inputs.includes(place) || block.cotangents.includes(place));
  return [["What goes in", own], ["What comes out", ends(block.forward)], ["Gradients", ends(block.backward)]]
    .flatMap(([title, list]) => (list.length ? [make("h3", {}, title), ...list.map((place) => tensor(block, place))] : []));
}

function show(block, about, over) {
  const again = make("button", { type: "button", id: "again", hidden: "" }, "Draw again");
  again.addEventListener("click", drawAgain);
  again.toggleAttribute("hidden", !changed.size);
  const status = make("p", { id: "wrong", role: "status" });
  const unique = (list) => [...new Set(list)].map((place) => tensor(page.blocks[about.place], place));
  const parts = !about ? overview(block) : over ? exchanged(about, over)
    : [make("h3", {}, "Made"), ...unique(about.makes), make("h3", {}, "From"), ...unique(about.reads)];
  panel.replaceChildren(make("p", { class: "quiet" }, ...rich(page.said())), again, status, ...parts);
}

panel.addEventListener("input", ({ target }) => change(target.closest("figure"), target));
panel.addEventListener("focusin", ({ target }) => {
  const figure = target.closest("figure");
  const cell = target.closest("td");
  if (!cell) return;
  if (target.tagName === "INPUT") {
    target.value = cell.title;
    target.select();
  }
  for (const each of figure.querySelectorAll("[tabindex='0']:not(button)")) each.tabIndex = -1;
  target.tabIndex = 0;
  trace(figure, cell.at);
});
panel.addEventListener("focusout", ({ target }) => {
  if (target.tagName === "INPUT") {
    target.removeAttribute("aria-invalid");
    tell("");
    target.value = shortened(Number(target.parentNode.title));
  }
  untrace();
});
panel.addEventListener("pointerover", ({ target }) => {
  const cell = target.closest("td");
  if (cell) trace(cell.closest("figure"), cell.at);
});
panel.addEventListener("pointerleave", untrace);
panel.addEventListener("keydown", (event) => {
  const cell = event.target.closest("td");
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], Enter: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!cell || !by) return;
  const box = event.target;
  const inside = box.tagName === "INPUT" && by[1] && !(box.selectionStart === 0 && box.selectionEnd === box.value.length);
  if (inside) return;
  const next = cell.parentNode.parentNode.rows[cell.parentNode.rowIndex + by[0]]?.cells[cell.cellIndex + by[1]];
  if (!next) return;
  event.preventDefault();
  (next.firstElementChild ?? next).focus();
});

// For the console: numbers() are the values of a block on a rank; change("W_Q", [0, 1], 2) is one change.
globalThis.numbers = (block = 0, rank = 0) =>
  page.blocks[block].values.map(({ name }, place) => ({ name, ...tensorOn(rank, block, place) }));
globalThis.change = (name, index, value, block = 0) => {
  const [slot] = page.blocks[block].values.flatMap((each, place) => (each.name === name ? [slotOf(block, place)] : [])).filter((each) => given[each]);
  const own = strides(given[slot].x.shape);
  set(slot, index.reduce((at, each, axis) => at + each * own[axis], 0), value);
};

return { show, tensorOn, shortened };
