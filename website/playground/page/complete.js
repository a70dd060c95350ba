// Names that could be written at the cursor, in a list under it; the compiler knows them.

const WORD = /[\p{L}\p{N}_]*$/u;
const SHOWN = 50; // at most

/** Where a place of the text is in the window; the coloured copy behind it has the same lines. */
function placeOf(copy, at) {
  const walker = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (at > node.length) { at -= node.length; continue; }
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
    const { name, from } = offered[chosen];
    close();
    text.setSelectionRange(from, text.selectionStart);
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
      .slice(0, SHOWN).map((each) => ({ ...each, from: before.length - word.length, whole: [each.name, each.also].includes(word) }));
    if (!offered.some(({ whole }) => always || !whole)) return;
    list.replaceChildren(...offered.map(row));
    const [box, around] = [placeOf(copy, before.length - word.length), list.parentElement.getBoundingClientRect()];
    list.hidden = false;
    text.setAttribute("aria-expanded", "true");
    list.style.left = `${Math.max(0, Math.min(box.left - around.left, around.width - list.offsetWidth))}px`;
    const below = box.bottom - around.top;
    list.style.top = `${below + list.offsetHeight > around.height ? Math.max(0, box.top - around.top - list.offsetHeight) : below}px`;
    choose(0);
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
  text.addEventListener("scroll", close);
}
