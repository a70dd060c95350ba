// Formulas of operators in MathML. Prose among them stays text, at which lines can break.

const NAMES = /^(loss|ids|stride|dilation|pad|slot|sigma|mean|low|high|cos|sin|log|inf|d[a-z])$/;
const MATH_TOKENS = /\s+|\d+(?:\.\d+)?|[\p{L}\p{M}]+|_[\p{L}\p{N}]+|\^\([^)]*\)|\^[\p{L}\p{N}]+|[⁰¹²³⁴-⁹⊤]+|<=|\.\.\.?|./gu;

const math = (tag, ...inside) => {
  const made = document.createElementNS("http://www.w3.org/1998/Math/MathML", tag);
  made.append(...inside);
  return made;
};
const mathRow = (inside) => (inside.length === 1 ? inside[0] : math("mrow", ...inside));

/** A formula as runs of math and the words between them. */
function formulaParts(text) {
  const tokens = text.match(MATH_TOKENS);
  const isWord = (token, next) => /^[a-z]{2,}$/.test(token) && !NAMES.test(token) && !/^[([_]/.test(next ?? "");
  const parts = [];
  let [run, depth] = [[], 0];
  const end = (said) => {
    while (run.at(-1)?.trim() === "") said = run.pop() + said;
    if (run.length) parts.push(math("math", ...mathItems(run)));
    if (said) parts.push(said);
    run = [];
  };
  tokens.forEach((token, place) => {
    depth += "([".includes(token) - ")]".includes(token);
    if (!depth && (/^[,;:]$/.test(token) || isWord(token, tokens[place + 1]))) end(token);
    else if (!run.length && !token.trim()) parts.push(token);
    else run.push(token);
  });
  end("");
  return parts;
}

/** Tokens, as far as a bracket that closes: fractions, roots, scripts, signs. */
function mathItems(tokens, from = { at: 0 }) {
  const items = [];
  while (from.at < tokens.length && !")]".includes(tokens[from.at])) {
    const item = mathFactor(tokens, from);
    if (!item) continue;
    while (tokens[from.at]?.trim() === "") from.at += 1;
    if (tokens[from.at] !== "/") items.push(item);
    else {
      from.at += 1;
      items.push(math("mfrac", bared(item), bared(mathFactor(tokens, from) ?? math("mrow"))));
    }
  }
  return items;
}

/** The inside of brackets: a fraction or a root needs none. */
const bared = (item) => (item.bare ? math("mrow", ...item.bare()) : item);

/** One factor: a number, a name, what is in brackets; with its scripts, and a sum with what it sums. */
function mathFactor(tokens, from) {
  while (tokens[from.at]?.trim() === "") from.at += 1;
  const token = tokens[from.at];
  if (token === undefined || ")]".includes(token)) return null;
  from.at += 1;
  if ("([".includes(token)) return scripted(bracketed(token, tokens, from), tokens, from);
  if (/^\d/.test(token)) return scripted(math("mn", token), tokens, from);
  if (!/^\p{L}/u.test(token) || token === "Σ") {
    const sign = scripted(math("mo", token === "-" ? "−" : token), tokens, from);
    if (token !== "Σ") return sign;
    const summed = mathFactor(tokens, from);
    return summed ? math("mrow", sign, summed) : sign;
  }
  const name = scripted(math(/^[a-z]{3,}$/.test(token) && !"([".includes(tokens[from.at] ?? " ") && !NAMES.test(token) ? "mtext" : "mi", token), tokens, from);
  if (!"([".includes(tokens[from.at] ?? " ")) return name;
  const inside = bracketed(tokens[from.at++], tokens, from);
  return scripted(token === "sqrt" ? math("msqrt", bared(inside)) : math("mrow", name, inside), tokens, from);
}

function bracketed(open, tokens, from) {
  const items = mathItems(tokens, from);
  const close = tokens[from.at++] ?? "";
  const row = math("mrow", math("mo", open), ...items, math("mo", close));
  if (open === "(") row.bare = () => items;
  return row;
}

/** With the indices and powers that follow. */
function scripted(base, tokens, from) {
  let made = base;
  for (; /^[_^⁰¹²³⁴-⁹⊤]/u.test(tokens[from.at] ?? ""); from.at += 1) {
    const script = tokens[from.at].replace(/^\^\((.*)\)$|^[_^]/, "$1");
    const inside = mathRow(mathItems(script.replace(/[⁰¹²³⁴-⁹]/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(digit)).match(MATH_TOKENS) ?? []));
    made = math(tokens[from.at][0] === "_" ? "msub" : "msup", made, inside);
  }
  return made;
}
