// The state of the page in its address: block, pass, step, rank, tab, sizes. A link brings it back.

const begun = { ...sizes };
let reading = true; // the address, which is not written meanwhile; so does the page begin

/** A block by its name, by its place where several have the name. */
const blockName = ({ name, place }) => (blocks.find((each) => each.name === name).place === place ? name : String(place));
const blockNamed = (name) => Math.max(blocks.findIndex((each) => each.name === name), Number(name) || 0);

function address() {
  const said = new URLSearchParams();
  const say = (name, value, usual) => value !== usual && said.set(name, value);
  say("block", blockName(blocks[chosen.place]), blocks[0].name);
  say("pass", chosen.view, "forward");
  if (chosen.kept) said.set("step", sequence().findIndex(({ id }) => id === chosen.kept) + 1);
  say("rank", looked.rank, 0);
  say("tab", all("[role=tab]").find((tab) => tab.ariaSelected === "true").getAttribute("aria-controls"), "costs");
  for (const [name, value] of Object.entries(sizes)) say(`size.${name}`, value, begun[name]);
  return said.toString();
}

/** A choice can be taken back by the browser's button; a slider's way and what is played are one. */
function remember(choice = !player.timer) {
  const [now, before] = [address(), location.hash.slice(1)];
  if (reading || now === before) return;
  try {
    history[choice ? "pushState" : "replaceState"](null, "", `#${now}`);
  } catch { /* a page inside of a notebook has no address */ }
}

function readAddress() {
  const said = new URLSearchParams(location.hash.slice(1));
  reading = true;
  stop();
  for (const name of Object.keys(sizes)) {
    const value = Number(said.get(`size.${name}`) ?? begun[name]);
    if (value !== sizes[name]) setters[name](value);
  }
  openBlock(blockNamed(said.get("block")), said.get("pass") ?? "forward");
  const rank = Number(said.get("rank") ?? 0);
  if (facts.runs[rank] && rank !== looked.rank) lookAt(rank);
  const tab = said.get("tab") ?? "costs";
  if (all("[role=tab]").some((each) => each.getAttribute("aria-controls") === tab)) openTab(tab);
  const step = sequence()[said.get("step") - 1];
  if (step && tab === "numbers") goTo(Number(said.get("step")));
  else if (step && step.view === chosen.view) keep(step.id);
  reading = false;
}
