// Real numbers, step by step, forward and then backward.

const PAUSE = 1400; // milliseconds from step to step
const player = { at: 0, timer: 0, on: false, place: 0 };

const sequence = () => stepsOf(chosen.place);

function showPlayer() {
  const slider = element("at");
  const here = sequence();
  slider.max = here.length;
  if (player.place !== chosen.place) {
    stop();
    Object.assign(player, { at: 0, on: false, place: chosen.place });
  }
  slider.value = player.at;
  const step = here[player.at - 1];
  element("where").textContent = step ? `${player.at} of ${here.length}` : `${here.length} steps`;
  slider.setAttribute("aria-valuetext", step ? `${player.at} of ${here.length}: ${step.equation}` : "before the first step");
  showProgress(here);
  showChip(step);
}

/** What is not computed yet is faint. */
function showProgress(here) {
  const drawing = drawingOf(chosen.place, chosen.view);
  drawing.svg.classList.toggle("playing", player.on && player.at > 0);
  for (const part of all(".later", drawing.svg)) part.classList.remove("later");
  if (!player.on || !player.at) return;
  const later = new Set(here.slice(player.at).filter((step) => step.view === chosen.view).map((step) => step.node));
  for (const [name, parts] of drawing.parts) if (later.has(name)) mark(parts, "later");
  const { edges } = drawing;
  const waiting = (node) => later.has(node) || edges.some(([tail, head]) => head === node && later.has(tail));
  for (const [tail, head] of edges) {
    if (!waiting(tail)) continue;
    mark(drawing.parts.get(`${tail}->${head}`), "later");
  }
  const ends = new Set(edges.map(([, head]) => head).filter((head) => !edges.some(([tail]) => tail === head)));
  for (const end of ends) if (waiting(end)) mark(drawing.parts.get(end), "later");
}

/** The first numbers that the current step makes, beside its node. */
function showChip(step) {
  for (const old of all(".chip")) old.remove();
  const node = step?.view === chosen.view && player.on && nodeOf(step);
  const known = node && tensorOn(looked.rank, step.place, step.makes[0]);
  if (!known) return;
  const row = known[1][0] ?? [];
  const more = known[0].reduce((a, b) => a * b, 1) > Math.min(row.length, 3) ? " …" : "";
  const text = drawn("text", { x: 6, y: 11.5 });
  text.textContent = row.slice(0, 3).map(numberText).join("  ") + more;
  const chip = drawn("g", { class: "chip" }, drawn("rect", { rx: 3, height: 16 }), text);
  node.parentNode.append(chip);
  const box = node.getBBox();
  const width = text.getComputedTextLength() + 12;
  const right = box.x + box.width + 6;
  const fits = right + width <= node.ownerSVGElement.viewBox.baseVal.width;
  chip.firstChild.setAttribute("width", width);
  chip.setAttribute("transform", `translate(${fits ? right : box.x - 6 - width} ${box.y + box.height / 2 - 8})`);
}

function goTo(at) {
  const here = sequence();
  player.at = Math.max(0, Math.min(at, here.length));
  player.on = true;
  player.place = chosen.place;
  const step = here[player.at - 1];
  const focused = element("figures").contains(document.activeElement); // keys go on from there
  chosen.touched = null;
  chosen.kept = step?.id ?? null;
  const view = step?.view ?? "forward";
  if (view !== chosen.view) {
    chosen.view = view;
    showBlock();
  } else {
    showPlayer();
    light();
  }
  openTab("numbers");
  const node = step ? nodeOf(step) : firstNode();
  node?.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (focused) node?.focus({ preventScroll: true });
}

function stop() {
  clearInterval(player.timer);
  player.timer = 0;
  showPlaying(false);
}

function togglePlay() {
  if (player.timer) return stop();
  if (player.at >= sequence().length) player.at = 0;
  goTo(player.at + 1);
  player.timer = setInterval(() => (player.at < sequence().length ? goTo(player.at + 1) : stop()), PAUSE);
  showPlaying(true);
}

function showPlaying(playing) {
  element("play").setAttribute("aria-pressed", playing);
  element("play").textContent = playing ? "Pause" : "Play";
}

// ---- numbers -----------------------------------------------------------------------------------

function showNumbers(id) {
  const panel = element("numbers");
  const block = blocks[chosen.place];
  const intro = make("p", { class: "quiet" }, ...rich(said()));
  if (!id) {
    const given = [...block.inputs, ...block.cotangents];
    panel.replaceChildren(intro, make("h3", {}, "What goes in"), ...given.map((place) => tensor(block, place)));
    return;
  }
  const step = steps.get(id);
  if (exchanges(step)) {
    panel.replaceChildren(intro, ...exchanged(step));
    return;
  }
  panel.replaceChildren(
    intro,
    make("h3", {}, "Made"), ...step.makes.map((place) => tensor(blocks[step.place], place)),
    make("h3", {}, "From"), ...[...new Set(step.reads)].map((place) => tensor(blocks[step.place], place)),
  );
}

function said() {
  if (facts.quick) return "The numbers come in a moment.";
  if (!facts.runs.length) return "There are no numbers: the sizes of this program cannot be small.";
  const at = Object.entries(run().sizes).map(([name, value]) => `${name} = ${value}`).join(", ");
  const rank = runAxes.length ? `On ${placeText(run())} of ${facts.runs.length} simulated ranks. ` : "";
  return `${rank}${at ? `At ${at}, ` : ""}with drawn parameters and dropout. Of a larger tensor, the corner of the first matrix.`;
}

/** rank 3 (N_D = 1, N_T = 1) */
const placeText = ({ name, at }) =>
  `${name} (${runAxes.map((axis) => `${axis} = ${at[axis]}`).join(", ")})`;

/** A tensor as a table, on the chosen rank or another. */
function tensor(block, place, rank = looked.rank) {
  const value = block.values[place];
  const known = tensorOn(rank, block.place, place);
  const caption = make("figcaption", {}, make("b", {}, ...rich(value.name)), " ", ...rich(shapeText(value)));
  if (!known) return make("figure", {}, caption, make("p", { class: "quiet" }, "no number"));
  const [shape, rows] = known;
  caption.append(shape.length ? ` = ${shape.join(" × ")}` : "");
  if (runAxes.length) caption.append(make("span", { class: "held" }, ...rich(heldHere(value, known, facts.runs[rank].at))));
  const largest = Math.max(...rows.flat().filter(Number.isFinite).map(Math.abs), 1e-30);
  const body = rows.map((row) => make("tr", {}, ...row.map((value) => numberCell(value, largest))));
  const [height, width] = [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
  const cut = width > rows[0]?.length || height > rows.length || shape.length > 2;
  return make("figure", cut ? { class: "cut" } : {}, caption, make("table", {}, make("tbody", {}, ...body)));
}

const numberText = (value) => String(value).replace("inf", "∞").replaceAll("-", "−");

function numberCell(value, largest) {
  const made = make("td", { class: value < 0 ? "below" : "above" }, numberText(value));
  const share = Number.isFinite(value) ? Math.abs(value) / largest : 0;
  made.style.setProperty("--share", `${Math.round(share * 55)}%`);
  return made;
}
