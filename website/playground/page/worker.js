// The compiler, in a thread of its own: one request after the other, in JSON.

import { engine } from "./layout.js";
import { from } from "./memory.js";

const FOLDER = "/lib/python3.14/site-packages";
const NO_PACKAGES = { info: { abi_version: "2026_0", arch: "wasm32", platform: "emscripten", python: "3.14.2", version: "0" }, packages: {} };
const at = (name) => new URL(name, import.meta.url).href;

async function bytes(name) {
  const answer = await fetch(at(name));
  if (!answer.ok) throw new Error(`${name} is not there`);
  return new Uint8Array(await answer.arrayBuffer());
}

const json = async (name) => JSON.parse(new TextDecoder().decode(await bytes(name)));
const inflated = async (name) => new Uint8Array(await new Response(
  new Blob([await bytes(name)]).stream().pipeThrough(new DecompressionStream("gzip")),
).arrayBuffer());

/** The modules of Pyodide, from the page's own folder. */
async function runtime() {
  try {
    const modules = ["pyodide.mjs", "pyodide.asm.mjs"].map((name) => import(at(`pyodide/${name}`)));
    const [{ loadPyodide }, { default: create }] = await Promise.all(modules);
    return { loadPyodide, create };
  } catch {
    throw new Error("The Python runtime is not part of this copy of the site: ./dev site fetches it, where npm can reach its registry.");
  }
}

/** Python with the compiler imported, from the memory that the site was built with. */
async function awake() {
  const [memory, hashes, rest] = [inflated("memory.bin"), json("memory.json"), inflated("rest.zip.gz")];
  for (const each of [memory, hashes, rest]) each.catch(() => {}); // awaited below, or not needed
  const { loadPyodide, create } = await runtime();
  await hashes; // without a memory, nothing is begun twice
  const python = await loadPyodide({
    indexURL: at("pyodide/"), stdLibURL: at("nothing.zip"), lockFileContents: NO_PACKAGES, ...from(create, memory, hashes),
  });
  python.unpackArchive(await rest, "zip", { extractDir: FOLDER });
  return python;
}

/** Python that imports the compiler now, where there is no memory that suits. */
async function started() {
  const files = Promise.all(["compiler.zip", "answer.py"].map(bytes));
  const { loadPyodide } = await runtime();
  const [[compiler, source], python] = await Promise.all([files, loadPyodide({ indexURL: at("pyodide/") })]);
  python.unpackArchive(compiler, "zip", { extractDir: FOLDER });
  python.runPython(new TextDecoder().decode(source));
  return python;
}

async function start() {
  const layout = bytes("graphviz.wasm").then(engine);
  layout.catch(() => {}); // awaited below
  const python = await awake().catch((error) => { console.warn(`the compiler starts slowly: ${error.message}`); return started(); });
  python.globals.get("use_layout")(await layout);
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
