// Arrays, and the meaning of every primitive: operators are bodies of these.

const count = (shape) => shape.reduce((product, size) => product * size, 1);
const array = (shape, data = new Float64Array(count(shape))) => ({ shape, data });
const filled = (shape, valueAt) => array(shape, Float64Array.from({ length: count(shape) }, (_, at) => valueAt(at)));

/** How far apart neighbors on each axis are. */
function strides(shape) {
  const steps = [];
  for (let axis = shape.length - 1, step = 1; axis >= 0; step *= shape[axis--]) steps.unshift(step);
  return steps;
}

/** The place of every element of a shape, the last axis quickest, given a step for each axis. */
const places = (shape, steps, start = 0) =>
  shape.reduce((found, size, axis) => {
    const next = new Int32Array(found.length * size);
    next.forEach((_, at) => { next[at] = found[Math.floor(at / size)] + (at % size) * steps[axis]; });
    return next;
  }, Int32Array.of(start));

/** The data of an array, repeated to a shape. */
function spread(x, shape) {
  const ahead = shape.length - x.shape.length;
  if (!ahead && shape.every((size, axis) => size === x.shape[axis])) return x.data;
  const own = strides(x.shape);
  const steps = shape.map((_, axis) => (axis < ahead || x.shape[axis - ahead] === 1 ? 0 : own[axis - ahead]));
  return Float64Array.from(places(shape, steps), (at) => x.data[at]);
}

const each = (compute) => ({ shape }, xs) => {
  const [a, b, c] = xs.map((x) => spread(x, shape));
  return filled(shape, (at) => compute(a[at], b?.[at], c?.[at]));
};

const viewed = (x, shape, steps, start = 0) => filled(shape, ((from) => (at) => x.data[from[at]])(places(shape, steps, start)));

const reduced = (join, start, end = (total) => total) => ({ axes, shape }, [x]) => {
  const gone = new Set(axes.map((axis) => (axis + x.shape.length) % x.shape.length));
  const of = (list, inside) => list.filter((_, axis) => gone.has(axis) === inside);
  const steps = strides(x.shape);
  const kept = places(of(x.shape, false), of(steps, false));
  const inside = places(of(x.shape, true), of(steps, true));
  return filled(shape, (at) => end(inside.reduce((total, by) => join(total, x.data[kept[at] + by]), start), inside.length));
};

/** A sum of products in index letters: bik,kj->bij. */
function contract({ spec, shape }, xs) {
  const [inputs, result] = spec.split("->");
  const letters = inputs.split(",");
  const sizes = new Map(letters.flatMap((names, n) => [...names].map((name, axis) => [name, xs[n].shape[axis]])));
  const summed = [...sizes.keys()].filter((name) => !result.includes(name));
  const lie = (names, n) => places([...names].map((name) => sizes.get(name)), [...names].map((name) =>
    strides(xs[n].shape).reduce((step, own, axis) => step + (letters[n][axis] === name ? own : 0), 0)));
  const [[a, b], [inA, inB]] = [result, summed].map((names) => [lie(names, 0), lie(names, 1)]);
  return filled(shape, (at) => {
    let sum = 0;
    for (let k = 0; k < inA.length; k++) sum += xs[0].data[a[at] + inA[k]] * xs[1].data[b[at] + inB[k]];
    return sum;
  });
}

/** Put arrays one behind the other along an axis, from a position on, into zeros. */
function joined(shape, axis, xs, start = 0) {
  const made = array(shape);
  const steps = strides(shape);
  let from = start * steps.at(axis);
  for (const x of xs) {
    places(x.shape, steps, from).forEach((to, at) => { made.data[to] = x.data[at]; });
    from += x.shape.at(axis) * steps.at(axis);
  }
  return made;
}

/** A stretch of an axis. */
const cut = (x, axis, start, length) =>
  viewed(x, x.shape.with(axis, length), strides(x.shape), start * strides(x.shape).at(axis));

/** Every element of every window beside its place on the axis; nothing beyond the ends. */
function windows({ axis, length, count: windowCount, width, stride, dilation, before }, wide, narrow, meet) {
  const [steps, own] = [strides(wide), strides(narrow)];
  const here = (list, ...gone) => list.filter((_, place) => !gone.includes(place - list.length));
  for (let j = 0; j < windowCount; j++) {
    for (let i = 0; i < width; i++) {
      const position = j * stride + i * dilation - before;
      if (position < 0 || position >= length) continue;
      const inside = places(here(narrow, axis), here(own, axis), position * own.at(axis));
      places(here(narrow, axis), here(steps, axis - 1, axis), j * steps.at(axis - 1) + i * steps.at(axis))
        .forEach((at, n) => meet(at, inside[n]));
    }
  }
}

/** Rows of tables by ids: each element of the rows beside its place in the tables. */
function rows(tables, ids, batch, meet) {
  const size = count(tables.slice(batch + 1));
  const each = count(ids.shape.slice(batch));
  ids.data.forEach((id, at) => {
    const from = (Math.floor(at / each) * tables[batch] + id) * size;
    for (let k = 0; k < size; k++) meet(at * size + k, from + k);
  });
}

/** For every row of the last axis the numbers that it gives. */
function byRow(x, shape, give) {
  const width = x.shape.at(-1);
  const rowsOf = Array.from({ length: count(x.shape) / width }, (_, row) => x.data.subarray(row * width, (row + 1) * width));
  return array(shape, Float64Array.from(rowsOf.flatMap(give)));
}

/** The error function: a series near 0, a continued fraction beyond. */
function erf(x) {
  const square = x * x;
  if (Number.isNaN(x) || Math.abs(x) > 30) return Math.sign(x);
  let [sum, fraction] = [0, 0];
  if (Math.abs(x) < 1.5) {
    for (let k = 25; k >= 0; k--) sum = 2 + (square * sum) / (k + 1.5);
    return (sum * x * Math.exp(-square)) / Math.sqrt(Math.PI);
  }
  for (let k = 120; k > 0; k--) fraction = k / 2 / (Math.abs(x) + fraction);
  return Math.sign(x) * (1 - Math.exp(-square) / (Math.abs(x) + fraction) / Math.sqrt(Math.PI));
}

// ---- random numbers ----------------------------------------------------------------------------

const whole = (n) => BigInt.asUintN(64, n);
function mixed(z) {
  z = whole((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = whole((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}

/** The key of a place under a seed. */
function keyOf(seed, place) {
  let digest = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(place)) digest = whole((digest ^ BigInt(byte)) * 0x100000001b3n);
  return mixed(mixed(BigInt(seed)) ^ digest);
}

const SPREAD = Math.sqrt((65536 ** 2 - 1) / 3);
const word = (key, at) => mixed(whole(BigInt(at + 1) * 0x9e3779b97f4a7c15n + key));
const bits = (key, at) => Number(word(key, at) >> 40n);
const bell = (key, at) => {
  const z = word(key, at);
  return Number((z & 65535n) + ((z >> 16n) & 65535n) + ((z >> 32n) & 65535n) + (z >> 48n)) - 131070;
};
const LAWS = {
  normal: (mean, key, at, scale) => mean + bell(key, at) * (scale / SPREAD),
  uniform: (mean, key, at, scale) => mean + (bits(key, at) - 2 ** 23) * (scale * 2 ** -24),
  bernoulli: (_, key, at, p) => (bits(key, at) < Math.round(p * 2 ** 24) ? 1 : 0),
};

// ---- ranks -------------------------------------------------------------------------------------

/** Which chunks of an axis a rank has: in zigzag two, one from each end. */
const chunksOf = ([place, ranks, zigzag]) => (zigzag ? [place, 2 * ranks - 1 - place] : [place]);

function part(x, axis, along) {
  const chunks = chunksOf(along);
  const length = x.shape.at(axis) / (along[1] * chunks.length);
  const cuts = chunks.map((chunk) => cut(x, axis, chunk * length, length));
  return cuts.length > 1 ? joined(x.shape.with(axis, 2 * length), axis, cuts) : cuts[0];
}

/** The axis of which the ranks have these parts. */
function ofParts(shape, axis, parts, [, , zigzag]) {
  if (!zigzag) return joined(shape, axis, parts);
  const half = (place) => (x) => part(x, axis, [place, 2, false]);
  return joined(shape, axis, [...parts.map(half(0)), ...parts.map(half(1)).reverse()]);
}

/** What a rank gets of the arrays of its group. */
const EXCHANGED = {
  all_reduce: ({ shape }, xs) => xs.reduce((a, b) => PRIMITIVES.add({ shape }, [a, b])),
  all_reduce_max: ({ shape }, xs) => xs.reduce((a, b) => PRIMITIVES.maximum({ shape }, [a, b])),
  all_gather: ({ shape, axis }, xs, along) => ofParts(shape, axis, xs, along),
  reduce_scatter: ({ axis }, xs, along) => part(EXCHANGED.all_reduce(xs[0], xs), axis, along),
  all_to_all: ({ shape, cut: axis, joined: other }, xs, along) => ofParts(shape, other, xs.map((x) => part(x, axis, along)), along),
};

/** What a rank does by itself: `here` says where it is along mesh axes, and draws. */
const ON_A_RANK = {
  shard_slice: ({ axis, over }, [x], here) => part(x, axis, here.along(over)),
  pad_from_shard({ shape, axis, over }, [x], here) {
    const along = here.along(over);
    const parts = Array.from({ length: along[1] }, (_, rank) => (rank === along[0] ? x : array(x.shape)));
    return ofParts(shape, axis, parts, along);
  },
  first_rank_only: ({ shape, over }, [x], here) => (here.along(over)[0] ? array(shape) : x),
  owns_index({ shape, over, rows: own }, [ids], here) {
    const chunks = chunksOf(here.along(over));
    return filled(shape, (at) => Number(chunks.includes(Math.floor((ids.data[at] * chunks.length) / own))));
  },
  to_local_index({ shape, over, rows: own }, [ids], here) {
    const chunks = chunksOf(here.along(over));
    const length = own / chunks.length;
    return filled(shape, (at) => {
      const chunk = chunks.indexOf(Math.floor(ids.data[at] / length));
      return chunk < 0 ? 0 : chunk * length + (ids.data[at] % length);
    });
  },
  dropout_keep({ p, cuts }, [x], here) {
    if (here.key === undefined) return filled(x.shape, () => 1);
    const shape = cuts.reduce((all, [axis, over]) => all.with(axis, all.at(axis) * here.along(over)[1]), x.shape);
    const mask = filled(shape, (at) => Number(bits(here.key, at) >= Math.round(p * 2 ** 24)));
    return cuts.reduce((all, [axis, over]) => part(all, axis, here.along(over)), mask);
  },
  draw: ({ shape, law, scale }, [mean], here) =>
    (here.key === undefined ? mean : filled(shape, (at) => LAWS[law](mean.data[at], here.key, at, scale))),
};

const PRIMITIVES = {
  const: ({ shape, value }) => filled(shape, () => Number(value)),
  iota: ({ shape, start }) => filled(shape, (at) => start + at),
  neg: each((a) => -a), stop: each((a) => a), as_float: each((a) => a), erf: each(erf),
  round: each((a) => (Math.abs(a % 1) === 0.5 ? 2 * Math.round(a / 2) : Math.round(a))),
  gather_around: (_, [x]) => x, scatter_around: (_, [x]) => x, // of whole tensors; ranks send
  add: each((a, b) => a + b), sub: each((a, b) => a - b), mul: each((a, b) => a * b), div: each((a, b) => a / b),
  pow: (node, xs) => each((a) => a ** node.exponent)(node, xs),
  maximum: each((a, b) => Math.max(a, b)), minimum: each((a, b) => Math.min(a, b)),
  gt: each((a, b) => Number(a > b)), ge: each((a, b) => Number(a >= b)), eq: each((a, b) => Number(a === b)),
  and: each((a, b) => Number(a && b)), or: each((a, b) => Number(a || b)), where: each((yes, a, b) => (yes ? a : b)),
  sum: reduced((a, b) => a + b, 0), mean: reduced((a, b) => a + b, 0, (sum, n) => sum / n), max: reduced((a, b) => Math.max(a, b), -Infinity),
  cumsum({ shape, axis, backwards }, [x]) {
    const [made, step, length] = [array(shape, x.data.slice()), strides(shape).at(axis), shape.at(axis)];
    const before = backwards ? step : -step;
    const order = [...made.data.keys()];
    for (const at of backwards ? order.reverse() : order) {
      const place = Math.floor(at / step) % length;
      if (place !== (backwards ? length - 1 : 0)) made.data[at] += made.data[at + before];
    }
    return made;
  },
  contract,
  reshape: ({ shape }, [x]) => array(shape, x.data),
  transpose: ({ shape, order }, [x]) => viewed(x, shape, order.map((axis) => strides(x.shape)[axis])),
  broadcast: ({ shape }, [x]) => array(shape, spread(x, shape)),
  concat: ({ shape, axis }, xs) => joined(shape, axis, xs),
  cut: ({ axis, start, stop }, [x]) => cut(x, axis, start, stop - start),
  pad: ({ shape, axis, start }, xs) => joined(shape, axis, xs, start),
  window(node, [x]) {
    const made = array(node.shape);
    windows(node, node.shape, x.shape, (at, from) => { made.data[at] = x.data[from]; });
    return made;
  },
  overlap(node, [x]) {
    const made = array(node.shape);
    windows(node, x.shape, node.shape, (at, to) => { made.data[to] += x.data[at]; });
    return made;
  },
  gather({ shape, batch = 0 }, [x, ids]) {
    const made = array(shape);
    rows(x.shape, ids, batch, (at, from) => { made.data[at] = x.data[from]; });
    return made;
  },
  scatter_add({ shape, batch = 0 }, [x, ids]) {
    const made = array(shape);
    rows(shape, ids, batch, (at, to) => { made.data[to] += x.data[at]; });
    return made;
  },
  pick: ({ shape }, [x, ids]) => filled(shape, (at) => x.data[at * x.shape.at(-1) + ids.data[at]]),
  place({ shape, length }, [x, ids]) {
    const made = array(shape);
    x.data.forEach((value, at) => { made.data[at * length + ids.data[at]] = value; });
    return made;
  },
  top: ({ shape }, [x]) => byRow(x, shape, (row) => [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, shape.at(-1))),
  earlier: ({ shape }, [ids]) => byRow(ids, shape, (row) => [...row].map((id, at) => row.subarray(0, at).filter((each) => each === id).length)),
  dropout_apply: ({ shape, p, scaled }, [x, keep]) => {
    const scale = scaled ? 1 / (1 - p) : 1;
    return filled(shape, (at) => (keep.data[at] ? x.data[at] * scale : 0));
  },
  ...ON_A_RANK,
};

/** The meaning of a primitive; that of other functions of one number, such as tanh, is in Math. */
const meaning = (prim) => PRIMITIVES[prim] ?? each(Math[prim]);

/** A body, ready to run: of every primitive its name, the places of its arguments, what else it needs. */
const prepared = ([operands, nodes, results]) => ({
  operands, results,
  nodes: nodes.map(([prim, ...rest]) => ({
    prim,
    args: rest.filter((each) => typeof each === "number"),
    node: { shape: rest.find(Array.isArray), ...rest.find((each) => typeof each === "object" && !Array.isArray(each)) },
  })),
});

/** The shape of an elementwise result. */
const widest = (shapes) =>
  shapes.reduce((a, b) => {
    const [long, short] = a.length < b.length ? [b, a] : [a, b];
    const ahead = long.length - short.length;
    return long.map((size, axis) => (axis < ahead || size > 1 ? size : short[axis - ahead]));
  });

/** The results of a body on every rank, given its operands there; `key` draws. */
function computed(body, given, ranks, key) {
  const known = [...given];
  for (const { prim, args: from, node: about } of body.nodes) {
    const args = from.map((at) => known[at]);
    const node = about.shape ? about : { ...about, shape: widest(args.map(([x]) => x.shape)) };
    const of = (rank) => args.map((arg) => arg[rank]);
    if (EXCHANGED[prim]) {
      known.push(ranks.map((here) => EXCHANGED[prim](node, here.group(node.over).map((rank) => args[0][rank]), here.along(node.over))));
    } else if (!ON_A_RANK[prim] && args.every((arg) => arg.every((x) => x === arg[0]))) {
      known.push(Array(ranks.length).fill(meaning(prim)(node, of(0))));
    } else known.push(ranks.map((here, rank) => meaning(prim)(node, of(rank), { ...here, key })));
  }
  return body.results.map((at) => known[at]);
}

/** Every rank by its place on each axis of the mesh, the last axis quickest. */
function onMesh(all) {
  const sizes = Object.fromEntries(Object.keys(all[0]).map((axis) => [axis, 1 + Math.max(...all.map((at) => at[axis]))]));
  const zigzag = (over) => over.endsWith(" zigzag");
  const named = (over) => Object.keys(sizes).filter((axis) => over.replace(/ zigzag$/, "").split("*").includes(axis));
  return all.map((at) => ({
    along: (over) => named(over)
      .reduce(([place, ranks, order], axis) => [place * sizes[axis] + at[axis], ranks * sizes[axis], order], [0, 1, zigzag(over)]),
    group: (over) => [...all.keys()].filter((rank) => Object.keys(sizes).every((axis) => named(over).includes(axis) || all[rank][axis] === at[axis])),
  }));
}

/** What is drawn at first, before anybody changes it. */
function drawn(seed, [place, shape, how]) {
  const key = keyOf(seed, place);
  if (typeof how === "number") return filled(shape, (at) => Number((word(key, at) >> 33n) % BigInt(how)));
  const [deviation, offset] = how;
  return filled(shape, (at) => bell(key, at) * (deviation / SPREAD) + offset);
}
