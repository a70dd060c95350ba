// Real numbers, step by step, forward and then backward; `numbers` computes and shows them.

const PAUSE = 1400; // milliseconds from step to step
const player = { at: 0, timer: 0, on: false, place: 0 };
let numbers = null; // until they are unpacked

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
  const isPlayed = player.on && here[player.at - 1]?.view === chosen.view; // not turned away from it
  drawing.svg.classList.toggle("playing", isPlayed);
  for (const part of all(".later", drawing.svg)) part.classList.remove("later");
  if (!isPlayed) return;
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
  const known = node && numbers?.tensorOn(looked.rank, step.place, step.makes[0]);
  if (!known) return;
  const row = [...known.data.slice(0, Math.min(known.shape.at(-1) ?? 1, 3))];
  const text = drawn("text", { x: 6, y: 11.5 });
  text.textContent = row.map(numbers.shortened).join("  ") + (known.data.length > row.length ? " …" : "");
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
  remember();
  const node = step ? nodeOf(step) : firstNode();
  node?.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (focused) node?.focus({ preventScroll: true });
}

/** Go on, in the pass that is shown: from its beginning, where it was turned to. */
function advance() {
  const here = sequence();
  const begins = here.findIndex(({ view }) => view === chosen.view);
  if (begins >= 0 && here[player.at - 1]?.view !== chosen.view) player.at = begins;
  goTo(player.at + 1);
}

function stop() {
  clearInterval(player.timer);
  player.timer = 0;
  showPlaying(false);
}

function togglePlay() {
  if (player.timer) return stop();
  if (player.at >= sequence().length) goTo(1);
  else advance();
  player.timer = setInterval(() => (player.at < sequence().length ? advance() : stop()), PAUSE);
  showPlaying(true);
}

function showPlaying(playing) {
  element("play").setAttribute("aria-pressed", playing);
  element("play").textContent = playing ? "Pause" : "Play";
}

// ---- numbers -----------------------------------------------------------------------------------

function showNumbers(id) {
  const panel = element("numbers");
  if (panel.hidden) return;
  if (!numbers) panel.replaceChildren(make("p", { class: "quiet" }, ...rich(said())));
  else if (id) numbers.show(blocks[chosen.place], steps.get(id), exchangedOver(steps.get(id)));
  else numbers.show(blocks[chosen.place]);
}

function said() {
  if (facts.quick || (facts.tape && !numbers)) return "The numbers come in a moment.";
  if (!facts.runs.length) return "There are no numbers: the sizes of this program cannot be small.";
  const at = Object.entries(run().sizes).map(([name, value]) => `${name} = ${value}`).join(", ");
  const rank = runAxes.length ? `On ${placeText(run())} of ${facts.runs.length} simulated ranks. ` : "";
  const sizes = at ? `At small sizes, to be read: ${at}; ` : "";
  return `${rank}${sizes}with drawn parameters. Change a number in a box, and both passes are computed again; point at another to see what made it.`;
}

/** rank 3 (N_D = 1, N_T = 1) */
const placeText = ({ name, at }) =>
  `${name} (${runAxes.map((axis) => `${axis} = ${at[axis]}`).join(", ")})`;

/** Add the script that computes, which the page's policy names, and give it the program. */
async function loadNumbers() {
  const [script, tape] = await Promise.all([facts.script, facts.tape].map(unpacked));
  add(script);
  numbers = globalThis.numbersOf(JSON.parse(tape), {
    facts, blocks, make, rich, spell, shapeText, said, rankCount, axes: runAxes,
    panel: element("numbers"), rank: () => looked.rank, changed: showPlayer,
  });
  showPlayer();
  showNumbers(current());
}
