// The memory of a Python that has the compiler imported. What a fresh one has in the same place is
// taken from it: pieces of the file are the difference to that, and its hash says to which.

const PIECE = 4096;

function hash(memory, from) {
  let value = 2166136261;
  for (let at = from; at < from + PIECE; at += 1) value = Math.imul(value ^ memory[at], 16777619);
  return value >>> 0 || 1;
}

/** The hashes of the pieces that two fresh memories have in common; 0 for others. */
export function common(one, other, pieces) {
  return Array.from({ length: pieces }, (_, piece) => {
    const [mine, theirs] = [one, other].map((memory) => hash(memory, piece * PIECE));
    return mine === theirs ? mine : 0;
  });
}

/** Take what is common from a memory in a file, or put it back: the same operation. */
export function exchange(file, fresh, hashes) {
  const [, start] = new Uint32Array(file.buffer, 0, 2);
  hashes.forEach((expected, piece) => {
    if (!expected) return;
    if (hash(fresh, piece * PIECE) !== expected) throw new Error("this browser starts with another memory");
    for (let at = piece * PIECE; at < (piece + 1) * PIECE; at += 1) file[start + at] ^= fresh[at];
  });
  return file;
}

/** Options with which Pyodide goes on from a memory in a file; `create` is that of its module. */
export function from(create, memory, hashes) {
  const createPyodideModule = async (settings) => {
    const [module, file, common] = await Promise.all([create(settings), memory, hashes]);
    exchange(file, module.HEAPU8, common);
    while (module.HEAP8.length < file.length) module._malloc(1 << 20); // it grows; then all of it is replaced
    return module;
  };
  return { _loadSnapshot: memory, createPyodideModule };
}
