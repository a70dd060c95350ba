// Unpacks the page's script, when the figure is on the screen, and starts it.

const facts = JSON.parse(document.getElementById("facts").textContent);

/** A text that was compressed for the page. */
const unpacked = (text) => {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt());
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
};

/** Run a script that the page's policy names. */
const add = (text) => document.head.append(Object.assign(document.createElement("script"), { textContent: text }));

globalThis.started = Promise.all(["$script", facts.formulas].map(unpacked)).then(([text, formulas]) => {
  facts.formulas = JSON.parse(formulas);
  add(text);
  return explorerOf(facts, unpacked, add);
});
