// Ranks: which one is looked at, what it holds, and what a collective brings together.

const COLLECTIVES = ["AR", "AG", "RS", "A2A"];
const runAxes = Object.keys(facts.runs[0]?.at ?? {});
const rankCount = (axis) => 1 + Math.max(...facts.runs.map((run) => run.at[axis]));
const looked = { rank: 0 };
const run = () => facts.runs[looked.rank] ?? { sizes: {}, at: {}, values: {} };

/** A tensor on a rank: its shape and a corner of it; what ranks hold alike is there once. */
function tensorOn(rank, block, place) {
  const known = facts.runs[rank]?.values[block]?.[place];
  return typeof known === "number" ? tensorOn(known, block, place) : known;
}

/** The rank at these places of the mesh. */
const rankAt = (at) => facts.runs.findIndex((each) => runAxes.every((axis) => each.at[axis] === at[axis]));

/** A row of numbers for every axis of the mesh. */
function rankPicker() {
  return runAxes.map((axis) => {
    const choices = Array.from({ length: rankCount(axis) }, (_, place) => {
      const radio = make("input", { type: "radio", name: `rank-${axis}`, value: place, "aria-label": `${axis} = ${place}` });
      radio.checked = place === 0;
      radio.addEventListener("change", () => lookAt(rankAt({ ...run().at, [axis]: place })));
      return make("label", {}, radio, make("span", {}, String(place)));
    });
    return make("fieldset", {}, make("legend", {}, ...rich(axis)), ...choices);
  });
}

function lookAt(rank) {
  looked.rank = rank;
  for (const axis of runAxes) {
    all(`input[name="rank-${axis}"]`).forEach((radio, place) => { radio.checked = place === run().at[axis]; });
  }
  element("rank").textContent = run().name;
  showPlayer();
  showNumbers(current());
}

const nextRank = (by) => lookAt((looked.rank + by + facts.runs.length) % facts.runs.length);

// ---- what a rank holds -------------------------------------------------------------------------

const HELD = { P: "a term", M: "a maximum" };

/** What a rank holds on one mesh axis: slice of D_ff, a term, same. */
const heldText = (lies) => (Array.isArray(lies) ? `slice of ${lies[1]}` : HELD[lies] ?? "same");

/** What a rank holds of a tensor: slice 4:8 of D_ff = 8; a term of the sum over N_T. */
function heldHere({ lies }, [shape], at) {
  const slices = new Map();
  const rest = { P: [], M: [], same: [] };
  for (const axis of runAxes) {
    const lie = lies[axis];
    if (!Array.isArray(lie)) rest[lie ?? "same"].push(axis);
    else {
      const { place = 0, count = 1 } = slices.get(lie[0]) ?? {};
      slices.set(lie[0], { whole: lie[1], place: place * rankCount(axis) + at[axis], count: count * rankCount(axis) });
    }
  }
  const parts = [...slices].map(([axis, { whole, place, count }]) => {
    const part = shape[axis];
    return `slice ${place * part}:${(place + 1) * part} of ${spell(whole)} = ${part * count}`;
  });
  if (rest.P.length) parts.push(`a term of the sum over ${rest.P.join(", ")}`);
  if (rest.M.length) parts.push(`a maximum, of all over ${rest.M.join(", ")}`);
  if (rest.same.length) parts.push(`the same over ${rest.same.join(", ")}`);
  return parts.join("; ");
}

// ---- collectives -------------------------------------------------------------------------------

/** What a collective takes from every rank of its group, and what it gives to each. */
function exchanged(step) {
  const [{ over }] = sentBy(step);
  const group = Array.from({ length: rankCount(over) }, (_, place) => rankAt({ ...run().at, [over]: place }));
  return [
    ...oneSide(step, step.reads[0], group, `From ${group.length} ranks along`, over),
    ...oneSide(step, step.makes[0], group, `To ${group.length} ranks along`, over),
  ];
}

/** What the ranks of a group hold of a tensor: of what all hold alike, what one has. */
function oneSide(step, place, group, title, over) {
  const alike = new Set(group.map((rank) => tensorOn(rank, step.place, place))).size === 1;
  const shown = alike ? [looked.rank] : group;
  return [
    make("h3", {}, `${title} `, ...rich(over), alike ? ", to all the same" : ""),
    make("div", { class: "group" }, ...shown.map((rank) => onRank(step, place, rank))),
  ];
}

function onRank(step, place, rank) {
  const here = rank === looked.rank ? { "aria-current": "true" } : {};
  const head = make("p", {}, make("b", {}, facts.runs[rank].name));
  return make("div", here, head, tensor(blocks[step.place], place, rank));
}

const exchanges = (step) => runAxes.length > 0 && COLLECTIVES.includes(step.sign) && sentBy(step).length > 0;
