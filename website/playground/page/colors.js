// The text in colors: comments, texts, words of the language, numbers, names behind arrows and colons.

/** A function from text to pieces [class, text]; `words` are those of the grammar. */
export function coloring(words) {
  const parts = [
    ["comment", "#.*"],
    ["string", '"[^"\\n]*"'],
    ["word", `(?<![\\p{L}\\p{N}_])(?:${words.join("|")})(?![\\p{L}\\p{N}_])`],
    ["operator", "(?<=->[ \\t]*)[\\p{L}_][\\p{L}\\p{N}_]*"],
    ["label", "(?<=:[ \\t]*)[\\p{L}_][\\p{L}\\p{N}_]*"],
    ["plain", "[\\p{L}_][\\p{L}\\p{N}_]*"],
    ["sign", "->|<=|<-|\\+/-|[•⊕⊙×±@+*]"],
    ["number", "\\d+(?:\\.\\d+)?(?:e-?\\d+)?"],
  ];
  const pattern = new RegExp(parts.map(([name, each]) => `(?<${name}>${each})`).join("|"), "gu");
  return (text) => {
    const pieces = [];
    let end = 0;
    for (const found of text.matchAll(pattern)) {
      if (found.index > end) pieces.push(["plain", text.slice(end, found.index)]);
      const [name] = Object.entries(found.groups).find(([, value]) => value !== undefined);
      pieces.push([name, found[0]]);
      end = found.index + found[0].length;
    }
    return [...pieces, ["plain", text.slice(end)]];
  };
}

/** The places of messages as [from, to, class] in the text; columns count characters. */
export function marks(text, places) {
  const lines = text.split("\n");
  const starts = [0];
  for (const line of lines) starts.push(starts.at(-1) + line.length + 1);
  const offset = (line, column) => starts[line - 1] + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
  return places
    .filter((place) => place.line && place.line <= lines.length)
    .map(({ line, column, end_column, severity }) => {
      const from = offset(line, column);
      return [from, Math.max(from + 1, offset(line, end_column ?? column + 1)), severity];
    });
}

/** Fill an element with the pieces of a text, marked. */
export function paint(element, pieces, marked) {
  const nodes = [];
  let at = 0;
  for (const [name, text] of pieces) {
    const cuts = [0, text.length];
    for (const [from, to] of marked) for (const cut of [from - at, to - at]) if (cut > 0 && cut < text.length) cuts.push(cut);
    cuts.sort((a, b) => a - b);
    for (let part = 1; part < cuts.length; part += 1) {
      const piece = text.slice(cuts[part - 1], cuts[part]);
      const mark = marked.find(([from, to]) => from <= at + cuts[part - 1] && at + cuts[part - 1] < to);
      const classes = [name === "plain" ? "" : name, mark?.[2] ?? ""].filter(Boolean).join(" ");
      if (!classes) { nodes.push(piece); continue; }
      const span = document.createElement("span");
      span.className = classes;
      span.textContent = piece;
      nodes.push(span);
    }
    at += text.length;
  }
  element.replaceChildren(...nodes, "\n");
}
