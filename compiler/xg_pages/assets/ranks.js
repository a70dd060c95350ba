// Ranks: which one is looked at, and how it holds a tensor.

const COLLECTIVES = ["AR", "AG", "RS", "A2A"];
const runAxes = Object.keys(facts.runs[0]?.at ?? {});
const rankCount = (axis) => 1 + Math.max(...facts.runs.map((run) => run.at[axis]));
const looked = { rank: 0 };
const run = () => facts.runs[looked.rank] ?? { sizes: {}, at: {} };

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
  remember();
}

const nextRank = (by) => lookAt((looked.rank + by + facts.runs.length) % facts.runs.length);

// ---- what a rank holds -------------------------------------------------------------------------

const HELD = { P: "a term", M: "a maximum" };

/** What a rank holds on one mesh axis: slice of D_ff, two slices of S in zigzag, a term, same. */
const heldText = (lies) => (Array.isArray(lies) ? `${lies[2] ? "two slices" : "slice"} of ${lies[1]}` : HELD[lies] ?? "same");

/** The mesh axis along which a step exchanges tensors of ranks, if it does nothing else. */
const exchangedOver = (step) => (runAxes.length && COLLECTIVES.includes(step.sign) ? sentBy(step)[0]?.over : undefined);
