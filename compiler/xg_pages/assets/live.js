// Shows the page of the chosen block; a new one takes its place when it is ready, as it was left.

import { kept, restore } from "./kept.js";

const element = (id) => document.getElementById(id);
const stage = element("stage");
let files = [];
let shown = ""; // the address of the page in front, or on its way
let hidden = ""; // the message that the reader has put away
let events = null;

function make(tag, attributes, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

/** The file and the page that the address names; the only one needs no name. */
function chosen() {
  const [place, block] = decodeURIComponent(location.hash.slice(1)).split(/\/(.*)/s);
  const only = files.length === 1 && files[0].pages.length < 2;
  const file = files[only ? 0 : place && Number(place)];
  if (!file) return {};
  const number = Math.max(0, file.pages.findIndex((page) => page.block === block));
  return { file, number, place: files.indexOf(file), page: file.pages[number] };
}

function show() {
  const { file, page, number, place } = chosen();
  const several = files.length > 1 || files[0]?.pages.length > 1;
  element("bar").hidden = !file || !several;
  element("index").hidden = Boolean(file) || !several;
  element("shown").textContent = file ? [file.name, page?.block].filter(Boolean).join(": ") : "";
  element("index").replaceChildren(...files.map(entry));
  document.title = file ? `${file.failed ? "✗ " : ""}${page?.block ?? file.name}` : "xg serve";
  tell(file);
  const address = page ? `page/${place}/${number}?${page.version}` : "";
  if (address !== shown && !(page?.begun && looksElsewhere(address))) load(address);
}

/** Whether the reader looks at a figure that a begun page does not have yet: all but the first. */
function looksElsewhere(address) {
  const [before] = stage.querySelectorAll("iframe:not(.coming)");
  if (pathOf(before?.getAttribute("src")) !== pathOf(address)) return false;
  const { block, first, backward, overview } = kept(before.contentDocument);
  return backward || overview || block !== first;
}

const pathOf = (address) => address?.split("?")[0];

function entry(file, place) {
  const links = file.pages.flatMap(({ block }) => [" ", make("a", { href: `#${place}/${encodeURIComponent(block)}` }, block)]);
  const name = links.length ? file.name : make("a", { href: `#${place}` }, file.name);
  return make("li", {}, name, ...links, ...(file.failed ? [" ", make("b", {}, file.said.split("\n")[0])] : []));
}

/** The messages of the compiler, over the last good picture. */
function tell(file) {
  const said = file?.said ?? "";
  element("said").querySelector("pre").textContent = said;
  element("said").classList.toggle("failed", Boolean(file?.failed));
  element("said").hidden = !said || said === hidden;
}

function load(address) {
  for (const coming of stage.querySelectorAll(".coming")) coming.remove();
  const [before] = stage.querySelectorAll("iframe");
  const same = pathOf(address) === pathOf(before?.getAttribute("src"));
  shown = address;
  if (!address) return before?.remove();
  const frame = make("iframe", { src: address, class: "coming", title: "Explorer" });
  frame.addEventListener("load", async () => {
    await frame.contentWindow.started;
    if (!frame.isConnected) return;
    if (before && same) restore(frame.contentDocument, kept(before.contentDocument));
    frame.classList.remove("coming");
    before?.remove();
  });
  stage.append(frame);
}

// ---- news ----------------------------------------------------------------------------------------

/** Only the tab in front listens: a browser has few connections for one server. */
function listen() {
  events?.close();
  if (document.hidden) return;
  events = new EventSource("state");
  events.addEventListener("open", () => { element("away").hidden = true; });
  events.addEventListener("error", () => { element("away").hidden = false; });
  events.addEventListener("message", ({ data }) => {
    files = JSON.parse(data);
    show();
  });
}

element("hide").addEventListener("click", () => {
  hidden = element("said").querySelector("pre").textContent;
  element("said").hidden = true;
});
addEventListener("hashchange", show);
document.addEventListener("visibilitychange", listen);
listen();
