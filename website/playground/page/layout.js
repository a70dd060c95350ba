// The layout engine: Graphviz as WebAssembly, a fresh instance for every problem.

const REFUSED = 8; // WASI: no such file or device; the engine needs none
const PAGES = 4096; // of 64 KiB; the compiler's limit elsewhere is the same

/** A function from DOT text to Graphviz's JSON, of the bytes of the module. */
export async function engine(bytes) {
  const module = await WebAssembly.compile(bytes);
  const names = WebAssembly.Module.imports(module).map(({ name }) => name);
  return (text) => laidOut(module, names, text);
}

function laidOut(module, names, text) {
  let memory;
  const view = () => new DataView(memory.buffer);
  const nothing = (...addresses) => { for (const at of addresses) view().setUint32(at, 0, true); return 0; };
  const known = {
    environ_sizes_get: nothing,
    args_sizes_get: nothing,
    environ_get: () => 0,
    args_get: () => 0,
    clock_time_get: (clock, precision, at) => { view().setBigUint64(at, 0n, true); return 0; },
    random_get: (at, length) => { new Uint8Array(memory.buffer, at, length).fill(0); return 0; },
    fd_write: (file, parts, count, written) => {
      let length = 0;
      for (let part = 0; part < count; part += 1) length += view().getUint32(parts + 8 * part + 4, true);
      view().setUint32(written, length, true);
      return 0;
    },
    proc_exit: (code) => { throw new Error(`the layout engine ended with ${code}`); },
  };
  const wasi = Object.fromEntries(names.map((name) => [name, known[name] ?? (() => REFUSED)]));
  const { exports } = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi });
  memory = exports.memory;
  exports._initialize?.();
  const write = (string) => {
    const data = new TextEncoder().encode(`${string}\0`);
    const at = exports.malloc(data.length);
    new Uint8Array(memory.buffer, at, data.length).set(data);
    return at;
  };
  const read = (at, length) => new TextDecoder().decode(new Uint8Array(memory.buffer, at, length));
  const length = exports.malloc(4);
  const result = exports.graphviz_render(...[text, "json0", "dot"].map(write), length);
  if (memory.buffer.byteLength > PAGES * 65536) throw new Error("no layout within the memory");
  if (!result) {
    const at = exports.graphviz_last_error();
    throw new Error(read(at, 200).split("\0")[0].trim() || "no layout");
  }
  return read(result, view().getUint32(length, true));
}
