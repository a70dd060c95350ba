// The page: what is typed goes to the compiler, and its answers come under the text and beside it.

import { colouring, marks, paint } from "./colours.js";
import { packed, unpacked } from "./link.js";

const element = (id) => document.getElementById(id);
const text = element("text");
const chosen = { name: "diagram", view: "forward", block: "", plan: "" };
let shown = null; // the last answer that could be shown
let places = [];
let coloured = (all) => [["plain", all]];

function say(words) {
  element("state").textContent = words;
}

// ---- the compiler --------------------------------------------------------------------------------

const waiting = new Map();
let asked = 0;
let worker;

/** A worker from a blob has the policy of this page: nothing is loaded from elsewhere. */
function startWorker() {
  const source = `import ${JSON.stringify(new URL("worker.js", location.href).href)};`;
  worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })), { type: "module" });
  worker.addEventListener("message", ({ data }) => {
    if (data.lost) say(data.lost);
    if (data.ready) document.body.dataset.ready = Math.round(performance.now());
    waiting.get(data.id)?.(data.answer);
    waiting.delete(data.id);
  });
  worker.addEventListener("error", (event) => say(`The compiler does not start: ${event.message ?? "its files cannot be read"}`));
}

export function ask(what) {
  asked += 1;
  const id = asked;
  worker.postMessage({ id, asked: what });
  return new Promise((resolve) => { waiting.set(id, resolve); });
}

// ---- what is typed, drawn ------------------------------------------------------------------------

let busy = false;
let newer = false;

/** Draw and check the text; what comes meanwhile waits, and only the last of it is drawn. */
async function renew() {
  newer = true;
  if (busy) return;
  busy = true;
  element("right").setAttribute("aria-busy", "true");
  while (newer) {
    newer = false;
    const now = { ...chosen, text: text.value };
    const begun = performance.now();
    const drawn = await ask({ do: "draw", ...now });
    show(drawn, Math.round(performance.now() - begun));
    if (newer) continue;
    const checked = await ask({ do: "check", ...now });
    if (text.value === now.text) tell(checked, drawn);
    const letters = await packed(now);
    if (!newer) history.replaceState(null, "", `#${letters}`);
  }
  busy = false;
  element("right").setAttribute("aria-busy", "false");
}

function tell({ said, places: found, failed }, drawn) {
  const words = said || failed || drawn.failed || "";
  places = found ?? [];
  element("said").textContent = words;
  element("said").hidden = !words;
  colour();
}

function show(answer, milliseconds) {
  element("shown").classList.toggle("stale", Boolean(answer.failed));
  if (answer.failed) return say(shown ? "the last good result" : "");
  choices(answer);
  if (answer.missing) {
    const [first] = answer.views;
    if (!answer.views.includes(chosen.view)) { choose(first); return; }
    return say(answer.missing);
  }
  shown = answer;
  const isPicture = answer.kind === "svg";
  element("picture").hidden = !isPicture;
  element("listing").hidden = isPicture;
  if (isPicture) showPicture(answer);
  else element("listing").textContent = answer.data;
  element("save").disabled = false;
  element("save").textContent = `Save ${answer.file.slice(answer.file.lastIndexOf("."))}`;
  for (const id of ["pdf", "tex"]) element(id).disabled = !isPicture;
  say(`${answer.file}, ${milliseconds} ms`);
}

function showPicture(answer) {
  const picture = element("picture");
  const before = picture.src;
  picture.src = URL.createObjectURL(new Blob([answer.data], { type: "image/svg+xml" }));
  picture.alt = `${answer.block}: ${chosen.view} figure`;
  if (before) URL.revokeObjectURL(before);
}

// ---- what there is to choose ---------------------------------------------------------------------

function fill(select, options, value) {
  const made = options.map(([name, label]) => new Option(label, name, false, name === value));
  select.replaceChildren(...made);
}

function choices({ blocks, block, plans, views }) {
  chosen.block = blocks.includes(chosen.block) ? chosen.block : "";
  fill(element("block"), blocks.map((name) => [name, name]), block);
  const placed = plans.includes(chosen.plan) || !chosen.plan ? plans : [chosen.plan, ...plans];
  fill(element("plan"), [["", "one device"], ...placed.map((name) => [name, name])], chosen.plan);
  element("views").replaceChildren(...views.map((view) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = view;
    button.dataset.view = view;
    button.setAttribute("aria-pressed", view === chosen.view);
    button.addEventListener("click", () => choose(view));
    return button;
  }));
}

function choose(view) {
  chosen.view = view;
  for (const button of element("views").children) button.setAttribute("aria-pressed", button.dataset.view === view);
  renew();
}

function colour() {
  paint(element("colours"), coloured(text.value), marks(text.value, places));
  element("colours").scrollTo(text.scrollLeft, text.scrollTop);
}

function open(program) {
  Object.assign(chosen, { block: "", plan: "", view: "forward" }, program);
  text.value = program.text;
  delete chosen.text;
  places = [];
  colour();
  renew();
}

// ---- files ---------------------------------------------------------------------------------------

function save({ file, data, kind }) {
  const content = kind === "pdf" ? Uint8Array.from(data, (letter) => letter.charCodeAt(0)) : data;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function saveAs(format) {
  const answer = await ask({ do: "draw", ...chosen, text: text.value, format });
  if (answer.data) save(answer);
  else say(answer.failed ?? answer.missing);
}

// ---- wiring --------------------------------------------------------------------------------------

text.addEventListener("input", () => { places = []; colour(); renew(); });
text.addEventListener("scroll", () => element("colours").scrollTo(text.scrollLeft, text.scrollTop));
text.addEventListener("keydown", (event) => {
  if (event.key !== "Tab" || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
  if (text.dataset.escaped) return; // Escape, then Tab, leaves the editor
  event.preventDefault();
  text.setRangeText("    ", text.selectionStart, text.selectionEnd, "end");
  text.dispatchEvent(new Event("input"));
});
text.addEventListener("keyup", (event) => { if (event.key === "Escape") text.dataset.escaped = "yes"; });
text.addEventListener("focus", () => { delete text.dataset.escaped; });
element("block").addEventListener("change", ({ target }) => { chosen.block = target.value; renew(); });
element("plan").addEventListener("change", ({ target }) => { chosen.plan = target.value; renew(); });
element("save").addEventListener("click", () => save(shown));
for (const id of ["pdf", "tex"]) element(id).addEventListener("click", () => saveAs(id));
element("format").addEventListener("click", async () => {
  const { text: formatted } = await ask({ do: "format", text: text.value });
  if (formatted === null || formatted === text.value) return say(formatted === null ? "a text with errors keeps its layout" : "");
  text.value = formatted;
  text.dispatchEvent(new Event("input"));
});
element("link").addEventListener("click", async () => {
  const address = new URL(`#${await packed({ ...chosen, text: text.value })}`, location.href).href;
  try {
    await navigator.clipboard.writeText(address);
    say("The link is on the clipboard; the program is in it.");
  } catch {
    history.replaceState(null, "", address);
    say("The link is in the address bar; the program is in it.");
  }
});

async function start() {
  say("Loading the compiler …");
  startWorker();
  const { words, examples } = await (await fetch("examples.json")).json();
  coloured = colouring(words);
  const names = Object.keys(examples);
  const program = location.hash.length > 1 ? await unpacked(location.hash.slice(1)) : null;
  const first = program ?? { name: "mha", text: examples.mha };
  fill(element("example"), [["", "–"], ...names.map((name) => [name, name])], program ? "" : "mha");
  element("example").addEventListener("change", ({ target }) => {
    if (target.value) open({ name: target.value, text: examples[target.value] });
  });
  addEventListener("hashchange", async ({ newURL }) => { // by now the page may have written its own
    const linked = await unpacked(new URL(newURL).hash.slice(1));
    if (linked) open(linked);
  });
  open(first);
}

start();
