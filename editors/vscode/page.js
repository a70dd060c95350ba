// The page of a preview: the explorer, which keeps what its reader has chosen when it is drawn anew,
// or the reason why there is none.
"use strict";

const { createHash } = require("node:crypto");
const { existsSync, readFileSync } = require("node:fs");
const { join } = require("node:path");

// Packing copies the script of `xg serve` beside the extension; a checkout has it in its own place.
const packed = join(__dirname, "..", "kept.js");
const SERVED = join(__dirname, "..", "..", "compiler", "xg_pages", "assets", "kept.js");
const KEPT = readFileSync(existsSync(packed) ? packed : SERVED, "utf8").replaceAll("export function", "function");
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/** Scripts of VS Code's page keep a state for it, also when the window is loaded again. */
const keeping = (uri) => `
const host = acquireVsCodeApi();
const uri = ${JSON.stringify(uri).replaceAll("<", "\\u003c")};
const was = host.getState()?.kept;
let timer, zoomed;
function save() {
  const now = kept(document);
  // A size that nobody chose is the next figure's own affair, as it grows with its text.
  host.setState({ uri, kept: { ...now, sizes: [...now.sizes], zoom: now.zoom === zoomed ? undefined : now.zoom } });
}
host.setState({ uri, kept: was });
await globalThis.started;
zoomed = kept(document).zoom;
if (was) restore(document, { ...was, sizes: new Map(was.sizes) });
save();
for (const kind of ["click", "change", "input", "keyup", "wheel", "scroll"]) {
  addEventListener(kind, () => { clearTimeout(timer); timer = setTimeout(save, 100); }, { capture: true, passive: true });
}
`;

/** The explorer with all of a figure in sight, and a script that keeps the choices of its reader. */
function explorer(page, uri) {
  const script = KEPT + keeping(uri);
  const hash = createHash("sha256").update(script).digest("base64");
  const place = page.lastIndexOf("</body>");
  return `${page.slice(0, place)}<script type="module">${script}</script>\n${page.slice(place)}`
    .replace("script-src ", () => `script-src 'sha256-${hash}' `)
    .replace('<div id="figures">', '<div id="figures" data-whole>');
}

/** What is wrong, in place of an explorer; what was chosen in that stays known. */
function reason(said, uri) {
  const script = `const host = acquireVsCodeApi(); host.setState({ ...host.getState(), uri: ${JSON.stringify(uri).replaceAll("<", "\\u003c")} });`;
  return `<!doctype html><meta charset="utf-8"><pre>${escaped(said)}</pre><script>${script}</script>`;
}

module.exports = { explorer, reason };
