// Start Python with the compiler, as the page would, and write its memory:
// node make_snapshot.mjs PYODIDE_FOLDER PLAYGROUND_FOLDER SCRIPT OUT

import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const FRESH = 3 << 20; // bytes that a memory begins with: tables of Python; behind them is what differs between browsers
const [pyodide, page, script, out] = process.argv.slice(2);
const imported = (...parts) => import(pathToFileURL(resolve(...parts)).href);
const bytes = (...parts) => new Uint8Array(readFileSync(join(...parts)));

/** Overwrite what is free: it says nothing, and would be most of what is sent. */
function scrub(module) {
  const top = module.HEAP8.length;
  const held = [];
  for (let size = 1 << 20; size >= 32; size >>= 1) {
    for (let at = module._malloc(size); at; at = module._malloc(size)) {
      held.push(at);
      if (at + size > top) break;
      module.HEAPU8.fill(0, at, at + size);
    }
  }
  for (const at of held) module._free(at);
}

const { loadPyodide } = await imported(pyodide, "pyodide.mjs");
const { default: create } = await imported(pyodide, "pyodide.asm.mjs");
const { common, exchange } = await imported(page, "memory.js");
const { engine } = await imported(page, "layout.js");
const python = await loadPyodide({ indexURL: `${resolve(pyodide)}/`, _makeSnapshot: true });
python.unpackArchive(bytes(page, "compiler.zip"), "zip", { extractDir: python.runPython("import site; site.getsitepackages()[0]") });
python.runPython(readFileSync(join(page, "answer.py"), "utf-8"));
const layOut = python.globals.get("use_layout");
layOut(await engine(bytes(page, "graphviz.wasm")));
layOut.destroy();
python.runPython(readFileSync(script, "utf-8"), { globals: python.globals });
writeFileSync(`${out}.modules`, python.runPython('"\\n".join(imported)'));
scrub(python._module);

/** The memory of a module in which Python has not begun. */
async function fresh() {
  let memory;
  const createPyodideModule = async (settings) => {
    memory = (await create(settings)).HEAPU8.slice();
    throw new Error(); // nothing more is needed
  };
  await loadPyodide({ indexURL: `${resolve(pyodide)}/`, _loadSnapshot: new Uint8Array(64), createPyodideModule }).catch(() => {});
  return memory;
}

const [one, other] = [await fresh(), await fresh()];
const hashes = common(one, other, FRESH / 4096);
const file = exchange(python.makeMemorySnapshot(), one, hashes);
writeFileSync(`${out}.bin`, gzipSync(file, { level: 9 }));
writeFileSync(`${out}.json`, JSON.stringify(hashes));
