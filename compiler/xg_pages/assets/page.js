// What the page holds: its facts, its elements, and where in the figures every step is.

const element = (id) => document.getElementById(id);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

/** A new element; user text gets in as text only. */
function make(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

/** What a step is: an operator of the table, or a call of a block. */
function operatorOf(step) {
  if (step.operator === undefined) return { name: facts.blocks[step.block].title };
  const [sign, name, formula, meaning] = facts.operators[step.operator];
  return { sign, name, formula, meaning };
}

/** A new element of a figure. */
function drawn(tag, attributes = {}, ...inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

/** A tensor of a block: its axes as the figure writes them, and how it lies on each mesh axis. */
const tensorOf = ([name, shape, lies = {}]) => ({ name, axes: facts.shapes[shape][0], lies });
const blocks = facts.blocks.map((block, place) => ({ ...block, place, values: block.values.map(tensorOf) }));
const steps = new Map();
for (const block of blocks) {
  for (const view of ["forward", "backward"]) {
    block[view].forEach((step, number) => {
      const id = `${block.place}.${view[0]}${number}`;
      const of = step.of === undefined ? null : `${block.place}.f${step.of}`;
      steps.set(id, { ...step, ...operatorOf(step), id, of, view, place: block.place, answers: [] });
    });
  }
}
for (const step of steps.values()) if (step.of) steps.get(step.of).answers.push(step.id);

const stepsOf = (place, view) =>
  [...steps.values()].filter((step) => step.place === place && (!view || step.view === view));

/** The ids that mean the same as one: itself, what it differentiates, what differentiates it. */
const family = (id) => {
  const { of, answers } = steps.get(id);
  return new Set([id, ...(of ? [of] : []), ...answers]);
};

/** Text with subscripts: W_Q, D_h, dW_up. */
function rich(text) {
  const parts = text.split(/(?<=[A-Za-zΑ-ωβγ])_([A-Za-z0-9]+)(?![A-Za-z0-9_(])/u);
  return parts.map((part, place) => (place % 2 ? make("sub", {}, part) : part));
}

// ---- figures -----------------------------------------------------------------------------------

/** The ends of an edge, whose name is `tail->head`; nothing for the name of a node. */
function edgeOf(name, parts) {
  const cuts = [...name.matchAll("->")].map(({ index }) => [name.slice(0, index), name.slice(index + 2)]);
  return cuts.filter(([tail, head]) => parts.has(tail) && parts.has(head)).slice(0, 1);
}

// All figures but the first, and the code: the compiler has escaped what is the user's.
const rest = make("div");
rest.innerHTML = await unpacked(facts.markup);
element("figures").append(...all(":scope > .xg-figure, .figure", rest));
element("code").append(...rest.children);

const drawings = new Map();
for (const holder of all(".figure")) {
  const drawing = { holder, svg: holder.firstElementChild, parts: new Map(), ready: false };
  for (const part of all("[data-op]", holder)) {
    const name = part.dataset.op;
    drawing.parts.set(name, [...(drawing.parts.get(name) ?? []), part]);
  }
  drawing.edges = [...drawing.parts.keys()].flatMap((name) => edgeOf(name, drawing.parts));
  for (const name of holder.dataset.shows.split(" ")) drawings.set(name, drawing);
}

const drawingOf = (place, view) => drawings.get(`${place}.${view}`);
const nodeOf = (step) => drawingOf(step.place, step.view)?.parts.get(step.node)?.[0];
const linesOf = (ids) => all("#code [data-steps]").filter((line) => line.dataset.steps.split(" ").some((id) => ids.has(id)));

/** What a finger or a pointer may hit is larger than what is drawn. */
function prepare(drawing) {
  if (drawing.ready) return;
  drawing.ready = true;
  for (const node of all(".node", drawing.svg)) {
    const box = node.getBBox();
    const [width, height] = [Math.max(box.width + 6, 28), Math.max(box.height + 6, 26)];
    const [x, y] = [box.x + (box.width - width) / 2, box.y + (box.height - height) / 2];
    node.prepend(drawn("rect", { class: "hit", x, y, width, height, rx: 5 }));
  }
}
