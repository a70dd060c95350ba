// The compiler, in a thread of its own: one request after the other, in JSON.

import { engine } from "./layout.js";

const at = (name) => new URL(name, import.meta.url).href;

async function bytes(name) {
  const answer = await fetch(at(name));
  if (!answer.ok) throw new Error(`${name} is not there`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function start() {
  const files = Promise.all(["compiler.zip", "graphviz.wasm", "answer.py"].map(bytes));
  let loadPyodide;
  try {
    ({ loadPyodide } = await import(at("pyodide/pyodide.mjs")));
  } catch {
    await files;
    throw new Error("The Python runtime is not part of this copy of the site: ./dev site fetches it, where npm can reach its registry.");
  }
  const [[compiler, graphviz, source], python] = await Promise.all([files, loadPyodide({ indexURL: at("pyodide/") })]);
  const folder = python.runPython("import site; site.getsitepackages()[0]");
  python.unpackArchive(compiler, "zip", { extractDir: folder });
  python.runPython(new TextDecoder().decode(source));
  python.globals.get("use_layout")(await engine(graphviz));
  return python.globals.get("answer");
}

const ready = start();
ready.then(() => postMessage({ ready: true }), (error) => postMessage({ lost: error.message }));

onmessage = async ({ data: { id, asked } }) => {
  const compiler = await ready.catch(() => null); // the page knows why
  if (!compiler) return;
  try {
    postMessage({ id, answer: JSON.parse(compiler(JSON.stringify(asked))) });
  } catch (error) {
    postMessage({ id, answer: { failed: `internal error: ${error.message.trim().split("\n").at(-1)}` } });
  }
};
