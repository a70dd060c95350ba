// Names that could be written at the cursor, in a list under it; the compiler knows them.

const WORD = /[\p{L}\p{N}_]*$/u;
const SHOWN = 50; // at most

/** Where a place of the text is in the window; the colored copy behind it has the same lines. */
function placeOf(copy, at) {
  const walker = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (at > node.length || (at === node.length && node.data.endsWith("\n"))) { at -= node.length; continue; }
    const range = document.createRange();
    range.setStart(node, at);
    const [box] = range.getClientRects();
    return box ?? copy.getBoundingClientRect();
  }
  return copy.getBoundingClientRect();
}

/**
 * Completion of a text area; `ask` gives {from, found}, what fits best first, for a text and a place in characters.
 * `write` types words over what is selected.
 */
export function completing(text, copy, list, write, ask) {
  let offered = [];
  let chosen = 0;
  let latest = 0;
  let start = 0; // of the word, in the text

  function close() {
    latest += 1;
    list.hidden = true;
    text.setAttribute("aria-expanded", "false");
    text.removeAttribute("aria-activedescendant");
  }

  function choose(place) {
    chosen = (place + offered.length) % offered.length;
    [...list.children].forEach((row, at) => row.setAttribute("aria-selected", at === chosen));
    list.children[chosen].scrollIntoView({ block: "nearest" });
    text.setAttribute("aria-activedescendant", list.children[chosen].id);
  }

  function row({ name, detail, kind }, at) {
    const made = document.createElement("li");
    made.id = `offer-${at}`;
    made.setAttribute("role", "option");
    const [written, said] = [document.createElement("b"), document.createElement("span")];
    written.textContent = name;
    said.textContent = detail || kind;
    made.append(written, " ", said);
    made.addEventListener("mousedown", (event) => { event.preventDefault(); choose(at); accept(); });
    return made;
  }

  function accept() {
    const { name } = offered[chosen];
    close();
    text.setSelectionRange(start, text.selectionStart);
    write(name);
    close();
  }

  /** Ask what fits here. Without `always`, only where a word has begun. */
  async function offer(always) {
    const before = text.value.slice(0, text.selectionStart);
    const [word] = before.match(WORD);
    close();
    if (!always && !/^[\p{L}_]/u.test(word)) return;
    const mine = latest;
    const { found = [] } = await ask(text.value, [...before].length);
    if (mine !== latest) return;
    const begins = (name) => name.toLowerCase().startsWith(word.toLowerCase());
    offered = found.filter(({ name, also }) => begins(name) || (also && begins(also)))
      .slice(0, SHOWN).map((each) => ({ ...each, whole: [each.name, each.also].includes(word) }));
    if (!offered.some(({ whole }) => always || !whole)) return;
    list.replaceChildren(...offered.map(row));
    start = before.length - word.length;
    list.hidden = false;
    text.setAttribute("aria-expanded", "true");
    place();
    choose(0);
  }

  /** Put the list under the line of the word, or above it if there is more room in the window. */
  function place() {
    copy.scrollTo(text.scrollLeft, text.scrollTop);
    const [box, around] = [placeOf(copy, start), list.parentElement.getBoundingClientRect()];
    if (box.bottom > around.bottom + 1 || box.top < around.top - 1) return close();
    const { offsetTop: top, height } = visualViewport;
    const [above, below] = [box.top - top, top + height - box.bottom];
    list.style.maxHeight = "";
    const isBelow = list.offsetHeight <= below || below >= above;
    list.style.maxHeight = `min(15rem, ${Math.floor(isBelow ? below : above)}px)`;
    list.style.left = `${Math.max(0, Math.min(box.left - around.left, around.width - Math.ceil(list.getBoundingClientRect().width)))}px`;
    list.style.top = `${isBelow ? box.bottom - around.top : box.top - around.top - list.offsetHeight}px`;
  }

  text.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); offer(true); return; }
    if (list.hidden) return;
    if (event.key === "Enter" && offered[chosen].whole) { close(); return; } // there is nothing to complete: a new line
    const does = { ArrowDown: () => choose(chosen + 1), ArrowUp: () => choose(chosen - 1), Enter: accept, Tab: accept, Escape: close }[event.key];
    if (!does) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    does();
  });
  text.addEventListener("input", ({ inputType }) => { if (inputType?.startsWith("insertText") || inputType === "deleteContentBackward") offer(false); else close(); });
  text.addEventListener("blur", close);
  text.addEventListener("scroll", () => { if (!list.hidden) place(); }); // long lines scroll as they are typed
}
