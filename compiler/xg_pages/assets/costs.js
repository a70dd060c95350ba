// Sliders for sizes and mesh axes, and the table of costs that they move.

const sizes = Object.fromEntries([...facts.sizes, ...facts.mesh].map(({ name, value }) => [name, value]));
const COLUMNS = [[1, "forward FLOPs"], [2, "backward FLOPs"], [3, "saved bytes"], [0, "parameters"]];
const setters = {}; // of every size, what sets its slider and its box
let refusal = "";

/** Where a slider may stand: 1, 2, 3, 4, 6, 8, 12, … and where it begins. */
function stops(start) {
  const found = new Set([start]);
  for (let power = 1; power <= start * 256; power *= 2) found.add(power).add(power * 3);
  return [...found].filter((stop) => stop <= start * 256 || stop === start).sort((a, b) => a - b);
}

function sizeRow({ name, value }) {
  const places = stops(value);
  const slider = make("input", {
    type: "range", min: 0, max: places.length - 1, value: places.indexOf(value), "aria-label": name, "aria-valuetext": value,
  });
  const box = make("input", { type: "number", min: 1, max: 1e9, value, "aria-label": `${name} as a number` });
  slider.addEventListener("input", () => {
    box.value = places[slider.value];
    resize(name, places[slider.value], slider);
  });
  const take = (wanted) => {
    if (!Number.isInteger(wanted) || wanted < 1 || wanted > 1e9) return;
    slider.value = places.findLastIndex((stop) => stop <= wanted);
    resize(name, wanted, slider);
  };
  setters[name] = (wanted) => { take(wanted); box.value = sizes[name]; };
  box.addEventListener("input", () => take(Number(box.value)));
  box.addEventListener("change", () => { box.value = sizes[name]; });
  return make("div", { class: "size" }, make("span", {}, ...rich(name)), slider, box);
}

function resize(name, value, slider) {
  sizes[name] = value;
  slider.setAttribute("aria-valuetext", value);
  showCosts();
  light();
  remember(false);
}

/** Why numbers do not go together, or nothing; of a plan only what its ranks share is asked. */
function refused({ whole, bounds = [] }) {
  for (const [place, name, over] of whole) {
    const value = numberOf(place);
    if (value[1] !== 1n || value[0] < 1n) return `${formula(place)} = ${inFull(value)} is no length of an axis`;
    const ranks = over.reduce((product, axis) => product * BigInt(sizes[axis]), 1n);
    if (value[0] % ranks) return `${spell(name)} = ${inFull(value)} is not divisible by ${over.join("·")} = ${ranks}`;
  }
  for (const [low, high] of bounds) {
    const [a, b] = [numberOf(low), numberOf(high)];
    if (a[0] * b[1] > b[0] * a[1]) return `${formula(low)} = ${inFull(a)} is more than ${formula(high)} = ${inFull(b)}`;
  }
  return "";
}

function showCosts() {
  refusal = refused(facts);
  element("refused").replaceChildren(...rich(refusal));
  element("table").replaceChildren(costTable(blocks[chosen.place]));
  showSent(blocks[chosen.place]);
  showPlans();
}

function costTable(block) {
  const rows = stepsOf(block.place, "forward").map((step) => [step.equation, step.cost, step.id]);
  for (const [name, cost] of block.other) rows.splice(name === "inputs" ? 0 : rows.length, 0, [name, cost, ""]);
  const head = make("tr", {}, make("th", { scope: "col" }, "step"));
  for (const [, title] of COLUMNS) head.append(make("th", { scope: "col" }, title));
  const body = make("tbody", {}, ...rows.map(costRow));
  const total = make("tr", {}, make("th", { scope: "row" }, "total"));
  for (const [column] of COLUMNS) total.append(totalCell(rows, column));
  const call = block.path ? `one call, as ${block.path}` : "one call";
  const rank = facts.ranks.length ? ", one rank" : "";
  const caption = make("caption", {}, `${block.title}, ${call}${rank}, float32`);
  return make("table", {}, caption, make("thead", {}, head), body, make("tfoot", {}, total));
}

function costRow([name, cost, id]) {
  const row = make("tr", id ? { "data-step": id } : {}, make("th", { scope: "row" }, ...rich(name)));
  for (const [column] of COLUMNS) row.append(cell([numberOf(cost[column])], formula(cost[column])));
  return row;
}

function totalCell(rows, column) {
  return cell(rows.map(([, cost]) => numberOf(cost[column])), "");
}

function cell(values, text) {
  if (refusal) return make("td", {}, "–");
  const sum = values.reduce(added, [0n, 1n]);
  const title = text && sum[0] !== 0n ? `${text} = ${inFull(sum)}` : inFull(sum);
  return make("td", { title }, sum[0] === 0n && text ? "" : inShort(sum));
}
