// The page: what is typed goes to the compiler, and its answers come under the text and beside it.

import { colouring, marks, paint } from "./colours.js";
import { completing } from "./complete.js";
import { kept, restore } from "./kept.js";
import { packed, unpacked } from "./link.js";

const element = (id) => document.getElementById(id);
const text = element("text");
const chosen = { name: "diagram", view: "forward", block: "", plan: "" };
let opened = { name: "diagram", text: "" }; // an example or a linked program, as it came
let shown = null; // the last answer that could be shown
let examples = {}; // texts by their names
let places = [];
let coloured = (all) => [["plain", all]];

function say(words) {
  element("state").textContent = words;
}

// ---- the compiler --------------------------------------------------------------------------------

const waiting = new Map();
let asked = 0;
let worker;
let lost = false; // whether the compiler will never answer, which stays said

/** A worker from a blob has the policy of this page: nothing is loaded from elsewhere. */
function startWorker() {
  const source = `import ${JSON.stringify(new URL("worker.js", location.href).href)};`;
  worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })), { type: "module" });
  worker.addEventListener("message", ({ data }) => {
    if (data.lost) { lost = true; say(data.lost); }
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

const LATE = 200; // milliseconds; what takes longer is announced
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
    const late = setTimeout(() => { if (!lost) say(`drawing ${now.view} …`); }, LATE);
    const drawn = await ask({ do: "draw", ...now });
    clearTimeout(late);
    show(drawn, Math.round(performance.now() - begun));
    if (newer) continue;
    const checked = await ask({ do: "check", ...now });
    if (text.value === now.text) tell(checked, drawn);
    const letters = await packed(now);
    if (!newer) history.replaceState(null, "", `#${letters}`);
    if (!newer && shown?.kind === "page" && !drawn.failed) await deepen(now);
  }
  busy = false;
  element("right").setAttribute("aria-busy", "false");
}

/** The numbers and plans of the explorer: a plan at a time, and what is typed comes before. */
async function deepen(now) {
  const { file } = shown;
  while (!newer) {
    const answer = await ask({ do: "deepen", ...now });
    if (answer.failed) return;
    if (newer) return;
    if (answer.data) {
      shown = { ...shown, ...answer };
      showPage(shown);
      return say(file);
    }
    say(`${file}: numbers and plans are on their way, ${answer.plans}`);
  }
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
  if (answer.failed) return say(shown ? "the last good result; the errors are under the text" : "nothing to show yet: the errors are under the text");
  choices(answer);
  if (answer.missing) {
    const [first] = answer.views;
    if (!answer.views.includes(chosen.view)) { choose(first); return; }
    return say(answer.missing);
  }
  shown = answer;
  const isPicture = answer.kind === "svg";
  const isPage = answer.kind === "page";
  element("picture").hidden = !isPicture;
  element("listing").hidden = isPicture || isPage;
  element("shown").classList.toggle("page", isPage);
  if (isPicture) showPicture(answer);
  else if (isPage) showPage(answer);
  else element("listing").textContent = answer.data;
  if (!isPage) for (const frame of element("shown").querySelectorAll("iframe")) frame.remove();
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

/** The explorer in a frame; a new one takes its place when it is ready, as it was left. */
function showPage(answer) {
  const [before, ...coming] = element("shown").querySelectorAll("iframe");
  for (const frame of coming) frame.remove();
  const frame = document.createElement("iframe");
  frame.title = `${answer.block}: explorer`;
  frame.srcdoc = answer.data;
  frame.className = before ? "coming" : "";
  frame.addEventListener("load", async () => {
    await frame.contentWindow.started;
    if (!frame.isConnected || !before) return;
    restore(frame.contentDocument, kept(before.contentDocument));
    frame.className = "";
    before.remove();
  });
  element("shown").append(frame);
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

const blocksOf = (all) => [...all.matchAll(/^block[ \t]+([\p{L}_][\p{L}\p{N}_]*)/gmu)].map(([, name]) => name);

/** The name of the file that is written: what was opened, as long as a block of it is there, or the first block. */
function nameOf(all) {
  const [names, known] = [blocksOf(all), blocksOf(opened.text)];
  if (all === opened.text || names.some((name) => known.includes(name))) return opened.name;
  const own = names[0]?.toLowerCase().slice(0, 60) ?? "diagram";
  return new RegExp(`\\bfrom[ \\t]+${own}\\b`, "u").test(all) ? "diagram" : own; // it would use itself
}

/** What follows from a change of the text. */
function edited() {
  chosen.name = nameOf(text.value);
  if (text.value !== opened.text) element("example").value = "";
  places = [];
  colour();
  renew();
}

function open(program) {
  Object.assign(chosen, { block: "", plan: "", view: "forward" }, program);
  text.value = program.text;
  opened = { name: program.name, text: program.text };
  element("example").value = examples[program.name] === program.text ? program.name : "";
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
  say(`saved ${file}`);
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function saveAs(format) {
  say(`drawing ${format === "pdf" ? "PDF" : "TikZ"} …`);
  const answer = await ask({ do: "draw", ...chosen, text: text.value, format });
  if (answer.data) save(answer);
  else say(answer.failed ?? answer.missing);
}

// ---- wiring --------------------------------------------------------------------------------------

/** Type words at the cursor, in a way that the browser can undo where it lets scripts do so. */
function write(words) {
  if (document.execCommand("insertText", false, words)) return; // which tells of the input itself
  text.setRangeText(words, text.selectionStart, text.selectionEnd, "end");
  text.dispatchEvent(new Event("input"));
}

completing(text, element("colours"), element("offers"), write, (all, at) => ask({ do: "complete", name: chosen.name, text: all, at }));
text.addEventListener("input", edited);
text.addEventListener("scroll", () => element("colours").scrollTo(text.scrollLeft, text.scrollTop));
text.addEventListener("keydown", (event) => {
  if (event.key !== "Tab" || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
  if (text.dataset.escaped) return; // Escape, then Tab, leaves the editor
  event.preventDefault();
  write("    ");
});
text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
  const line = text.value.slice(0, text.selectionStart).split("\n").at(-1);
  const deeper = /\{[ \t]*(#.*)?$/.test(line) ? "    " : "";
  event.preventDefault();
  write(`\n${line.match(/^[ \t]*/)[0]}${deeper}`);
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
  const { selectionStart: at, scrollTop: top } = text;
  text.focus();
  text.select();
  write(formatted);
  text.setSelectionRange(at, at);
  text.scrollTop = top;
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
  const known = await (await fetch("examples.json")).json();
  examples = known.examples;
  coloured = colouring(known.words);
  const names = Object.keys(examples);
  const program = location.hash.length > 1 ? await unpacked(location.hash.slice(1)) : null;
  const first = program ?? { name: "mha", text: examples.mha };
  fill(element("example"), [["", "–"], ...names.map((name) => [name, name])], "");
  element("example").addEventListener("change", async ({ target }) => {
    const { value: name } = target;
    if (!name) return;
    history.replaceState(null, "", `#${await packed({ ...chosen, text: text.value })}`);
    history.pushState(null, "", location.href); // the browser's Back gives back what was written
    open({ name, text: examples[name] });
  });
  addEventListener("hashchange", async ({ newURL }) => { // by now the page may have written its own
    const linked = await unpacked(new URL(newURL).hash.slice(1));
    if (linked) open(linked);
  });
  open(first);
}

start();
