// The page: what is typed goes to the compiler, and its answers come under the text and beside it.

import { coloring, marks, paint } from "./colors.js";
import { completing } from "./complete.js";
import { kept, restore } from "./kept.js";
import { packed, unpacked } from "./link.js";
import { tellIn } from "./said.js";
import { keys, write, writeAll } from "./typing.js";

const element = (id) => document.getElementById(id);
const text = element("text");
const chosen = { name: "diagram", view: "forward", block: "", plan: "" };
let opened = { name: "diagram", text: "" }; // an example or a linked program, as it came
let opening = false; // whether it is being written into the editor
let plansBefore = []; // of the last text without errors
let shown = null; // the last answer that could be shown
let examples = {}; // texts by their names
let places = [];
let colored = (all) => [["plain", all]];

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
    const drawn = await ask({ do: "draw", ...now, plans: plansBefore });
    clearTimeout(late);
    show(drawn, now, Math.round(performance.now() - begun));
    if (drawn.view) Object.assign(now, { view: drawn.view, plan: drawn.plan });
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
  element("said").hidden = !words;
  tellIn(element("said"), words);
  color();
}

function show(answer, asked, milliseconds) {
  const { failed, kind } = answer;
  element("shown").classList.toggle("stale", Boolean(failed));
  const [isPicture, isPage] = [kind === "svg", kind === "page"];
  savable(kind, failed ? "The text has errors: what is shown is of the text before them" : "Nothing is shown");
  if (failed) {
    legible(answer);
    element("listing").hidden ||= !shown;
    return say(shown ? "the last good result, which cannot be saved; the errors are under the text" : "nothing to show yet: the errors are under the text");
  }
  for (const part of ["view", "plan"]) if (chosen[part] === asked[part]) chosen[part] = answer[part] ?? chosen[part];
  plansBefore = answer.plans ?? [];
  choices(answer);
  shown = answer.nothing ? null : answer;
  element("picture").hidden = !isPicture;
  element("listing").hidden = isPicture || isPage;
  element("shown").classList.toggle("page", isPage);
  document.querySelector("main").classList.toggle("tables", kind === "text");
  if (isPicture) showPicture(answer);
  else if (isPage) showPage(answer);
  else showText(answer.nothing ?? answer.data);
  if (!isPage) for (const frame of element("shown").querySelectorAll("iframe")) frame.remove();
  if (answer.nothing) return say("nothing to draw yet");
  element("save").textContent = `Save ${answer.file.slice(answer.file.lastIndexOf("."))}`;
  say(`${[moved(asked.plan, answer.plan), answer.missing].filter(Boolean).map((each) => `${each}; `).join("")}${answer.file}, ${milliseconds} ms`);
}

/** Only what is of the text as it is can be saved. */
function savable(kind, whyNot) {
  for (const [id, can, title] of [
    ["save", kind, "The file that is shown"], ["pdf", kind === "svg", "The figure as PDF"], ["tex", kind === "svg", "The figure for LaTeX"],
  ]) Object.assign(element(id), { disabled: !can, title: kind ? title : whyNot });
}

function moved(before, plan) {
  if (before === plan) return "";
  return plan ? `plan ${before} is called ${plan} now` : `no plan is called ${before}: this is one device`;
}

/** Text in letters that are as large as its lines allow, within reason. */
function showText(words) {
  const [listing, room] = [element("listing"), element("shown")];
  listing.textContent = words;
  listing.style.fontSize = "";
  const over = room.scrollWidth / room.clientWidth;
  if (over > 1) listing.style.fontSize = `${Math.max(11, Math.floor(130 / over) / 10)}px`;
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
  const narrow = matchMedia("(max-width: 800px)");
  frame.title = `${answer.block}: explorer`;
  frame.srcdoc = answer.data;
  frame.className = before ? "coming" : "";
  frame.addEventListener("load", async () => {
    await frame.contentWindow.started;
    const { body, documentElement } = frame.contentDocument;
    new ResizeObserver(() => { // in a narrow window the frame is as high as its page, and only one of them scrolls
      documentElement.style.setProperty("--window", narrow.matches ? `${innerHeight}px` : "100vh");
      frame.style.height = narrow.matches ? `${Math.ceil(body.getBoundingClientRect().height)}px` : "";
    }).observe(body);
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

function choices({ blocks = [], block = "", plans = [], views = [], lacks = {} }) {
  chosen.block = blocks.includes(chosen.block) ? chosen.block : "";
  fillBoth(blocks, block, plans);
  showViews(views, lacks);
}

function fillBoth(blocks, block, plans) {
  fill(element("block"), blocks.map((name) => [name, name]), block);
  const placed = plans.includes(chosen.plan) || !chosen.plan ? plans : [chosen.plan, ...plans];
  fill(element("plan"), [["", "one device"], ...placed.map((name) => [name, name])], chosen.plan);
}

/** The choices of a text with errors; views stay as they were. */
function legible({ blocks, plans }) {
  if (blocks) fillBoth(blocks, chosen.block || element("block").value, plans);
  if (!element("views").children.length) showViews([...new Set(["forward", chosen.view])], {});
}

const FIGURES = ["forward", "backward", "overview"];

function showViews(views, lacks) {
  const names = [...FIGURES.filter((name) => views.includes(name) || lacks[name]), ...views.filter((name) => !FIGURES.includes(name))];
  const { view: focused } = document.activeElement.dataset;
  element("views").replaceChildren(...names.map((view) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: view, disabled: !views.includes(view), title: lacks[view] ?? "" });
    button.dataset.view = view;
    button.setAttribute("aria-pressed", view === chosen.view);
    button.addEventListener("click", () => choose(view));
    return button;
  }));
  if (focused) element("views").querySelector(`[data-view=${focused}]`)?.focus();
}

function choose(view) {
  chosen.view = view;
  for (const button of element("views").children) button.setAttribute("aria-pressed", button.dataset.view === view);
  renew();
}

function color() {
  paint(element("colors"), colored(text.value), marks(text.value, places));
  element("colors").scrollTo(text.scrollLeft, text.scrollTop);
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
  if (opening) return;
  chosen.name = nameOf(text.value);
  element("example").value = text.value === opened.text && examples[opened.name] === opened.text ? opened.name : "";
  places = [];
  color();
  renew();
}

function open(program) {
  const isFirst = !text.value && !opened.text;
  opened = { name: program.name, text: program.text };
  Object.assign(chosen, { block: "", plan: "", view: "forward" }, program);
  delete chosen.text;
  plansBefore = [];
  fillBoth([], "", []);
  opening = true; // once: it is written, and known, as a whole
  if (isFirst) text.value = program.text;
  else writeAll(text, program.text);
  opening = false;
  text.setSelectionRange(0, 0);
  text.scrollTop = 0;
  edited();
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

const type = (words) => write(text, words);
completing(text, element("colors"), element("offers"), type, (all, at) => ask({ do: "complete", name: chosen.name, text: all, at }));
keys(text);
text.addEventListener("input", edited);
text.addEventListener("scroll", () => element("colors").scrollTo(text.scrollLeft, text.scrollTop));
element("block").addEventListener("change", ({ target }) => { chosen.block = target.value; renew(); });
element("plan").addEventListener("change", ({ target }) => { chosen.plan = target.value; renew(); });
element("save").addEventListener("click", () => save(shown));
for (const id of ["pdf", "tex"]) element(id).addEventListener("click", () => saveAs(id));
element("format").addEventListener("click", async () => {
  const { text: formatted } = await ask({ do: "format", text: text.value });
  if (formatted === null || formatted === text.value) return say(formatted === null ? "a text with errors keeps its layout" : "already tidy");
  const { selectionStart: at, scrollTop: top } = text;
  text.focus();
  writeAll(text, formatted);
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
  colored = coloring(known.words);
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
