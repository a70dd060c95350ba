// Formulas: sums of terms such as 3*B*S^2/(2*N_T), computed exactly.

/** A formula as its terms: a coefficient as a fraction [above, below], and factors with powers. */
function parsed(text) {
  return text.replaceAll(" - ", " + -").split(" + ").map((term) => {
    const [above, below = ""] = term.replace(/^-/, "").split("/");
    const [n, upper] = factors(above);
    const [d, lower] = factors(below.replace(/[()]/g, ""));
    return [[term.startsWith("-") ? -n : n, d], [...upper, ...lower.map(([name, power]) => [name, -power])]];
  });
}

/** The number in a product, and its symbols with their powers: 2*B*S^2. */
function factors(text) {
  let number = 1n;
  const symbols = [];
  for (const factor of text ? text.split("*") : []) {
    const [name, power = 1] = factor.split("^");
    if (/^\d/.test(name)) number *= BigInt(name);
    else symbols.push([name, Number(power)]);
  }
  return [number, symbols];
}

/** The value of a parsed formula as a fraction in lowest terms, [above, below]. */
function evaluate(terms, sizes) {
  let sum = [0n, 1n];
  for (const [[n, d], symbols] of terms) {
    let [above, below] = [n, d];
    for (const [name, power] of symbols) {
      const factor = BigInt(sizes[name]) ** BigInt(Math.abs(power));
      if (power > 0) above *= factor;
      else below *= factor;
    }
    sum = added(sum, [above, below]);
  }
  return sum;
}

const added = ([a, b], [c, d]) => {
  const [above, below] = [a * d + c * b, b * d];
  const shared = divisor(above, below);
  return [above / shared, below / shared];
};

function divisor(a, b) {
  while (b) [a, b] = [b, a % b];
  return a < 0n ? -a : a || 1n;
}

/** A formula as people write it: 2·B·D·S² + 3·D/N_H. */
const spell = (text) =>
  text.replaceAll("*", "·").replaceAll(" - ", " − ")
    .replace(/\^(\d+)/g, (_, power) => [...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join(""));

/** A fraction in full: 12,884,901,888 or 3/2. */
function inFull([above, below]) {
  const text = above.toLocaleString("en-US");
  return below === 1n ? text : `${text}/${below.toLocaleString("en-US")}`;
}

/** A fraction in short: 12.88 G. */
function inShort([above, below]) {
  const value = Number(above) / Number(below);
  if (Math.abs(value) < 100000) return Number.isInteger(value) ? inFull([above, below]) : value.toPrecision(4);
  const scale = Math.min(Math.floor(Math.log10(Math.abs(value)) / 3), 6);
  return `${(value / 1000 ** scale).toPrecision(4)} ${" kMGTPE"[scale]}`;
}
