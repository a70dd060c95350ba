// What keys write into the editor, in ways that the browser can undo.

/** Type words over what is selected, in the text that has the focus. */
export function write(text, words) {
  if (document.execCommand("insertText", false, words)) return; // which tells of the input itself
  text.setRangeText(words, text.selectionStart, text.selectionEnd, "end");
  text.dispatchEvent(new Event("input"));
}

/** Type words in the place of everything; Ctrl-Z brings back what was there. */
export function writeAll(text, words) {
  const focused = document.activeElement;
  text.focus({ preventScroll: true });
  text.select();
  write(text, words);
  if (focused === text) return;
  text.blur();
  focused?.focus({ preventScroll: true });
}

const INDENT = "    ";

/** Tab and Enter as in other editors of code, and braces that end a block where its line begins. */
export function keys(text) {
  const before = () => text.value.slice(0, text.selectionStart).split("\n").at(-1);
  const typed = {
    Tab(event) {
      if (event.shiftKey || text.dataset.escaped) return null; // Escape, then Tab, leaves the editor
      return INDENT;
    },
    Enter() {
      const line = before();
      return `\n${line.match(/^[ \t]*/)[0]}${/\{[ \t]*(#.*)?$/.test(line) ? INDENT : ""}`;
    },
  };
  text.addEventListener("keydown", (event) => {
    if (event.isComposing || event.defaultPrevented) return;
    if (event.key === "}") return outdent(); // then the brace is typed, with AltGr or without
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const words = typed[event.key]?.(event) ?? null;
    if (words === null) return;
    event.preventDefault();
    write(text, words);
  });

  /** Take one indentation away in front of the cursor, where nothing else is. */
  function outdent() {
    const { selectionStart: at, selectionEnd } = text;
    const line = before();
    if (at !== selectionEnd || !line || /[^ \t]/.test(line)) return;
    text.setSelectionRange(at - Math.min(line.length, line.endsWith("\t") ? 1 : INDENT.length), at);
  }

  text.addEventListener("keyup", (event) => { if (event.key === "Escape") text.dataset.escaped = "yes"; });
  for (const kind of ["focus", "input"]) text.addEventListener(kind, () => { delete text.dataset.escaped; });
}
