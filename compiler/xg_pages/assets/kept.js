// Choices of a reader on an explorer page, to be made again on the page that takes its place.

const all = (page, selector) => [...page.querySelectorAll(selector)];
const boxes = "#sizes input[type=number], #mesh input[type=number]";

const scale = (page) => parseFloat(page.getElementById("scale")?.textContent);

/** Show the figure as large as it was, as a pinch does. */
function zoom(page, was) {
  const view = page.getElementById("figures");
  const by = was / scale(page);
  if (!view || !(by > 0) || by === 1) return;
  const { left, top } = view.getBoundingClientRect();
  const turn = { ctrlKey: true, cancelable: true, deltaY: -300 * Math.log(by), clientX: left, clientY: top };
  view.dispatchEvent(new WheelEvent("wheel", turn));
}

export function kept(page) {
  return {
    block: page.querySelector("nav [aria-pressed=true]")?.textContent,
    first: page.querySelector("nav button")?.textContent,
    backward: page.querySelector("#backward")?.checked,
    overview: page.querySelector("#overview")?.ariaPressed === "true",
    sizes: new Map(all(page, boxes).filter((box) => box.value !== box.defaultValue).map((box) => [box.ariaLabel, box.value])),
    operator: page.querySelector(".figure:not([hidden]) [aria-pressed=true]")?.ariaLabel,
    at: page.querySelector("#at")?.value,
    tab: page.querySelector("[role=tab][aria-selected=true]")?.id,
    zoom: scale(page),
    scrolled: ["figures", "side"].map((id) => [id, page.getElementById(id)?.scrollTop, page.getElementById(id)?.scrollLeft]),
  };
}

export function restore(page, was) {
  const click = (part) => part?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const block = all(page, "nav button").find((button) => button.textContent === was.block);
  if (block?.ariaPressed === "false") click(block);
  const turn = page.querySelector("#backward");
  if (turn && turn.checked !== was.backward && !turn.disabled) turn.click();
  for (const box of all(page, boxes)) {
    if (!was.sizes.has(box.ariaLabel)) continue;
    box.value = was.sizes.get(box.ariaLabel);
    box.dispatchEvent(new Event("input"));
  }
  if (Number(was.at)) {
    page.querySelector("#at").value = was.at;
    page.querySelector("#at").dispatchEvent(new Event("input"));
  }
  if (was.operator) click(all(page, ".figure:not([hidden]) [data-step]").find((node) => node.ariaLabel === was.operator));
  click(page.getElementById(was.tab ?? ""));
  zoom(page, was.zoom);
  for (const [id, top, left] of was.scrolled) page.getElementById(id)?.scrollTo(left, top);
}
