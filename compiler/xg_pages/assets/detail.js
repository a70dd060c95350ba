// What is said of one operator: equation, formula, shapes, costs, lines.

const formula = (place) => spell(facts.formulas[place]);
const terms = facts.formulas.map(parsed);
const numberOf = (place) => evaluate(terms[place], sizes);

const shapeText = ({ axes }) => `[${axes.map(spell).join(", ")}]`;

function shapes(step) {
  const { values } = blocks[step.place];
  const list = (places) => places.map((place) => shapeText(values[place])).join(" × ");
  return `${list(step.reads)} → ${list(step.makes) || "gradients of parameters"}`;
}

function showDetail(id) {
  const panel = element("detail");
  panel.replaceChildren(...(id ? told(steps.get(id)) : welcome()));
}

function welcome() {
  const block = blocks[chosen.place];
  const from = block.path ? `called as ${block.path}, ` : "";
  const rank = facts.ranks.length ? " of one rank" : "";
  const what = chosen.view === "overview" ? "both passes" : `${chosen.view} pass${rank}`;
  const text = "Point at an operator or tap it, or go through them with Tab and the arrow keys.";
  return [make("h2", {}, block.title), make("p", { class: "quiet" }, `${from}${what}. ${text}`)];
}

function told(step) {
  const parts = [heading(step), make("p", { class: "equation" }, ...rich(step.equation))];
  if (step.formula) parts.push(make("p", { class: "formula" }, ...formulaParts(step.formula)));
  else if (step.meaning) parts.push(make("p", { class: "quiet" }, step.meaning));
  parts.push(make("p", { class: "shapes" }, ...rich(shapes(step))), ...placements(step), costLine(step));
  const lines = codeLines(step);
  if (lines) parts.push(lines);
  if (step.block !== undefined) parts.push(opener(step));
  return parts;
}

/** On each mesh axis what a rank holds of what goes in, and of what comes out. */
function placements(step) {
  const { values } = blocks[step.place];
  const list = (places, axis) => places.map((place) => heldText(values[place].lies[axis])).join(" × ");
  return facts.ranks.map((axis) => {
    const text = `${list(step.reads, axis)} → ${list(step.makes, axis)}`;
    return make("p", { class: "shapes" }, make("span", { class: "quiet" }, "over ", ...rich(axis), ": "), ...rich(text));
  });
}

function heading(step) {
  const line = step.line ? make("span", { class: "quiet" }, ` line ${step.line}`) : "";
  return make("h2", {}, step.name.replaceAll("_", " "), line);
}

function opener(step) {
  const button = make("button", { type: "button", class: "open" }, `Open ${blocks[step.block].title}`);
  button.addEventListener("click", () => enter(step.block));
  return button;
}

/** 12.88 GFLOP, 512 FLOP. */
const withUnit = (short, unit) => (/\d$/.test(short) && unit ? `${short} ${unit}` : short + unit);

/** 2·B·S·D² = 12.88 GFLOP: of this step, and of a forward step what it saves. */
function costLine(step) {
  const parts = [];
  const say = (what, place, unit, text = formula(place)) => {
    if (text === "0") return;
    const value = refusal ? "" : ` = ${withUnit(inShort(numberOf(place)), unit)}`;
    const told = make("span", { title: refusal ? "" : inFull(numberOf(place)) }, ...rich(text), value);
    parts.push(make("dt", {}, what), make("dd", {}, told));
  };
  if (step.cost) {
    say("forward", step.cost[1], "FLOP");
    say("backward", step.cost[2], "FLOP");
    say("saved", step.cost[3], "B");
    say("parameters", step.cost[0], "");
  } else if (step.flops !== undefined) say("backward", step.flops, "FLOP");
  for (const each of sentBy(step)) {
    say("sent, naive", each.naive, "elements", sentFormula(each, "naive"));
    say("around a ring", each.ring, "elements", sentFormula(each, "ring"));
  }
  return make("dl", { class: "cost" }, ...parts);
}

/** The lines of code, and in a fold the functions that they call. */
function codeLines(step) {
  const lines = linesOf(family(step.id)).map((line) => line.textContent.trimEnd());
  if (!lines.length) return null;
  const text = lines.map((line) => line.replace(/^ {4}/, "")).join("\n");
  const called = Object.keys(facts.functions).filter((name) => new RegExp(`\\b${name}\\(`).test(text));
  const code = make("div", { class: "lines" }, make("pre", {}, text));
  for (const name of called) {
    const summary = make("summary", {}, `${name}(…)`);
    code.append(make("details", {}, summary, make("pre", {}, facts.functions[name])));
  }
  return code;
}
