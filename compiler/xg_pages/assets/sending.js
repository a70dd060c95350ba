// What ranks send: every collective with its elements, naive and around a ring.

const sentOf = ([pass, sign, over, calls, payload, naive, ring, bytes, step, ...factors]) =>
  ({ pass, sign, over, calls, payload, naive, ring, bytes, step: steps.get(step), factors });

/** The collectives that a step is, or that happen inside of it. */
const sentBy = (step) => blocks[step.place].sent.map(sentOf).filter((each) => each.step === step);

/** 2·(N_T − 1)/N_T·B·D·S: what a rank sends of a payload. */
function sentFormula({ payload, factors: [naive, ring] }, way) {
  const share = spell(way === "naive" ? naive : ring);
  const text = formula(payload);
  if (text === "1") return share;
  return `${share}·${text.includes(" ") ? `(${text})` : text}`;
}

function showSent(block) {
  const rows = block.sent.map(sentOf);
  element("sent").replaceChildren(...(facts.ranks.length ? [sentTable(block, rows)] : []));
}

function sentTable(block, rows) {
  const heads = ["collective", "of", "calls", "naive", "ring"].map((title) => make("th", { scope: "col" }, title));
  const bodies = ["forward", "backward"].map((pass) => {
    const inside = rows.filter((row) => row.pass === pass);
    const title = make("tr", {}, make("th", { scope: "rowgroup", colspan: 5, class: "pass" }, `${pass} pass`));
    return inside.length ? make("tbody", {}, title, ...inside.map((row) => sentRow(block, row))) : "";
  });
  const total = make("tr", {}, make("th", { scope: "row", colspan: 3 }, "total"));
  for (const way of ["naive", "ring"]) total.append(cell(rows.map((row) => numberOf(row[way])), ""));
  const caption = make("caption", {}, `What one rank sends, in elements${inBytes(rows)}`);
  return make("table", {}, caption, make("thead", {}, make("tr", {}, ...heads)), ...bodies, make("tfoot", {}, total));
}

/** The bytes of what is sent around a ring. */
function inBytes(rows) {
  if (refusal || !rows.length) return "";
  const all = rows.map(({ ring, bytes }) => [numberOf(ring)[0] * BigInt(bytes), numberOf(ring)[1]]);
  return `; around a ring ${withUnit(inShort(all.reduce(added, [0n, 1n])), "B")}`;
}

function sentRow(block, row) {
  const here = row.step.place === block.place;
  const made = make("tr", here ? { "data-step": row.step.id } : {});
  made.append(make("th", { scope: "row" }, make("b", {}, row.sign), " ", ...rich(row.over)));
  const [what] = row.step.equation.split(" = ");
  const where = here ? "" : ` in ${blocks[row.step.place].name}`;
  made.append(make("td", { class: "of" }, ...rich(what + where)), cell([numberOf(row.calls)], formula(row.calls)));
  for (const way of ["naive", "ring"]) made.append(cell([numberOf(row[way])], sentFormula(row, way)));
  return made;
}

// ---- plans --------------------------------------------------------------------------------------

const PLANNED = ["parameters", "held bytes", "FLOPs", "naive", "ring"];

/** One device and every plan of the file side by side. */
function showPlans() {
  if (!facts.plans.length) return;
  const heads = ["plan", ...PLANNED].map((title) => make("th", { scope: "col" }, title));
  const rows = facts.plans.map((plan) => {
    const name = make("th", { scope: "row", title: plan.title }, plan.name || "one device");
    const why = refused(plan);
    if (why) return make("tr", {}, name, make("td", { colspan: PLANNED.length, class: "why" }, ...rich(why)));
    return make("tr", {}, name, ...plan.costs.map(amount));
  });
  const caption = make("caption", {}, "Plans: one step of one rank, both passes; held with gradients and the moments of Adam");
  element("plans").replaceChildren(
    make("table", {}, caption, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)),
  );
}

const amount = (place) => make("td", { title: `${formula(place)} = ${inFull(numberOf(place))}` }, inShort(numberOf(place)));
