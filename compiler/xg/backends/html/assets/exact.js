// Formulas: sums of terms, each a coefficient and the power of every symbol, computed exactly.

/** The value of a formula as a fraction in lowest terms, [above, below]. */
function evaluate(terms, sizes) {
  let above = 0n;
  let below = 1n;
  for (const [coefficient, powers] of terms) {
    const parts = String(coefficient).split("/");
    let n = BigInt(parts[0]);
    let d = BigInt(parts[1] ?? 1);
    for (const [name, power] of Object.entries(powers)) {
      const factor = BigInt(sizes[name]) ** BigInt(Math.abs(power));
      if (power > 0) n *= factor;
      else d *= factor;
    }
    above = above * d + n * below;
    below *= d;
    const shared = divisor(above, below);
    above /= shared;
    below /= shared;
  }
  return [above, below];
}

function divisor(a, b) {
  while (b) [a, b] = [b, a % b];
  return a < 0n ? -a : a || 1n;
}

/** A formula as text: 2·B·D·S² + 3·D/N_H. */
function spell(terms) {
  return terms.map(spellTerm).join(" + ").replaceAll("+ -", "− ") || "0";
}

function spellTerm([coefficient, powers]) {
  const [n, d] = String(coefficient).split("/");
  // Counts stand before sizes, as people write them: N_H·D_h, not D_h·N_H.
  const names = Object.keys(powers).sort(
    (a, b) => b.startsWith("N_") - a.startsWith("N_") || (a < b ? -1 : 1),
  );
  const above = names.filter((name) => powers[name] > 0).map((name) => raised(name, powers[name]));
  const below = names.filter((name) => powers[name] < 0).map((name) => raised(name, -powers[name]));
  if (d) below.unshift(d);
  if (n === "-1" && above.length) above[0] = `-${above[0]}`;
  else if (n !== "1" || !above.length) above.unshift(n);
  const text = above.join("·");
  if (!below.length) return text;
  return below.length > 1 ? `${text}/(${below.join("·")})` : `${text}/${below[0]}`;
}

const raised = (name, power) =>
  power === 1 ? name : name + [...String(power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");

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

const added = ([a, b], [c, d]) => {
  const shared = divisor(a * d + c * b, b * d);
  return [(a * d + c * b) / shared, (b * d) / shared];
};
