// How large the figure is shown, and which part: wheel, pinch, drag, keys, buttons, a small map.

const view = element("figures");
const map = element("map");
const [SMALLEST, LARGEST, STEP] = [0.1, 4, 1.25];
const fingers = new Map();
let dragged = false;

const shownDrawing = () => drawingOf(chosen.place, chosen.view);
const bounded = (value, low, high) => Math.min(high, Math.max(low, value));

/** The factors at which a figure is as wide, or all of it as high, as there is room. */
function roomFor({ svg }) {
  const { width, height } = svg.viewBox.baseVal;
  const { paddingLeft, paddingBottom, maxHeight } = getComputedStyle(view);
  const high = parseFloat(maxHeight) || view.clientHeight;
  return [view.clientWidth - 2 * parseFloat(paddingLeft), high - parseFloat(paddingBottom)].map((room, side) => room / (([width, height][side] * 4) / 3));
}

/** Show the figure at a factor; a point of it stays where it is. */
function zoomTo(wanted, at) {
  const drawing = shownDrawing();
  const area = view.getBoundingClientRect();
  const [x, y] = at ?? [area.left + view.clientWidth / 2, area.top + view.clientHeight / 2];
  const before = drawing.svg.getBoundingClientRect();
  drawing.zoom = bounded(wanted, SMALLEST, LARGEST);
  drawing.svg.style.width = `${(drawing.svg.viewBox.baseVal.width * 4 * drawing.zoom) / 3}px`;
  const after = drawing.svg.getBoundingClientRect();
  view.scrollLeft += after.left + ((x - before.left) / before.width) * after.width - x;
  view.scrollTop += after.top + ((y - before.top) / before.height) * after.height - y;
  element("scale").textContent = `${Math.round(drawing.zoom * 100)} %`;
  showMap();
}

const zoomBy = (factor, at) => zoomTo(shownDrawing().zoom * factor, at);
const fit = () => zoomTo(Math.min(...roomFor(shownDrawing()), 1.6));

/** A figure begins as wide as there is room, or whole where the page is asked so, and legible. */
function showView() {
  const drawing = shownDrawing();
  map.copied = null;
  const [wide, high] = roomFor(drawing);
  zoomTo(drawing.zoom ?? bounded("whole" in view.dataset ? Math.min(wide, high) : wide, 0.55, 1));
}

// ---- the map -----------------------------------------------------------------------------------

/** The whole figure without its texts beside one that is larger than its room, and what is seen of it. */
function showMap() {
  const { svg } = shownDrawing();
  const large = view.scrollHeight > 1.5 * view.clientHeight || view.scrollWidth > 1.5 * view.clientWidth;
  map.hidden = !large;
  if (!large) return;
  if (map.copied !== svg) {
    const copy = svg.cloneNode(true);
    for (const part of all("text, use, desc, .hit, .chip", copy)) part.remove();
    for (const part of all("*", copy)) for (const name of ["tabindex", "role", "aria-label", "data-step", "data-op"]) part.removeAttribute(name);
    for (const name of ["role", "aria-label", "width", "style"]) copy.removeAttribute(name);
    copy.setAttribute("aria-hidden", true);
    map.replaceChildren(copy, map.lastElementChild);
    map.copied = svg;
  }
  const [whole, room, box] = [svg, map, map.firstElementChild].map((part) => part.getBoundingClientRect());
  const seen = view.getBoundingClientRect();
  for (const [start, size, length] of [["left", "width", view.clientWidth], ["top", "height", view.clientHeight]]) {
    const scale = box[size] / whole[size];
    const from = Math.max(0, seen[start] - whole[start]);
    map.lastElementChild.style[start] = `${box[start] - room[start] + from * scale}px`;
    map.lastElementChild.style[size] = `${Math.min(length, whole[size] - from) * scale}px`;
  }
}

function goThere({ clientX, clientY }) {
  const box = map.firstElementChild.getBoundingClientRect();
  view.scrollLeft = ((clientX - box.left) / box.width) * view.scrollWidth - view.clientWidth / 2;
  view.scrollTop = ((clientY - box.top) / box.height) * view.scrollHeight - view.clientHeight / 2;
}

map.addEventListener("pointerdown", (event) => {
  map.setPointerCapture(event.pointerId);
  goThere(event);
});
map.addEventListener("pointermove", (event) => event.buttons && goThere(event));
view.addEventListener("scroll", showMap);
new ResizeObserver(showMap).observe(view);

// ---- wheel, fingers, drag, buttons ---------------------------------------------------------------

view.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return; // a pinch of a touchpad has it too
  event.preventDefault();
  zoomBy(Math.exp(-event.deltaY / 300), [event.clientX, event.clientY]);
}, { passive: false });

const gap = ([a, b]) => Math.hypot(a[0] - b[0], a[1] - b[1]);
view.addEventListener("pointerdown", ({ pointerId, pointerType, clientX, clientY, button }) => {
  dragged = false;
  if (pointerType !== "mouse" || button === 0) fingers.set(pointerId, [clientX, clientY]);
});
view.addEventListener("pointermove", ({ pointerId, pointerType, clientX, clientY }) => {
  const before = fingers.get(pointerId);
  if (!before) return;
  const was = [...fingers.values()];
  if (fingers.size === 1 && pointerType === "mouse") {
    if (!dragged && gap([before, [clientX, clientY]]) < 4) return;
    dragged = true;
    view.scrollBy(before[0] - clientX, before[1] - clientY);
  }
  fingers.set(pointerId, [clientX, clientY]);
  const now = [...fingers.values()];
  if (now.length === 2) zoomBy(gap(now) / gap(was), [(now[0][0] + now[1][0]) / 2, (now[0][1] + now[1][1]) / 2]);
});
for (const kind of ["pointerup", "pointercancel", "pointerleave"]) {
  view.addEventListener(kind, ({ pointerId }) => fingers.delete(pointerId));
}
view.addEventListener("click", (event) => {
  if (dragged) event.stopImmediatePropagation();
}, true);

element("smaller").addEventListener("click", () => zoomBy(1 / STEP));
element("larger").addEventListener("click", () => zoomBy(STEP));
element("fit").addEventListener("click", fit);
