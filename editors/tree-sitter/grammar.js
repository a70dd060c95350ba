// The .xg language for tree-sitter; the compiler's own grammar is grammar/xg_grammar/xg.lark, and
// tests hold this one to it. `tree-sitter generate` writes src/ anew.

const LETTER = "A-Za-zΓΔΘΛΞΠΣΦΨΩβγδεζηθλμξπσφψω";

const list = (rule) => seq(rule, repeat(seq(",", rule)));
const lines = ($, rule) => seq(rule, repeat(seq($._newline, rule)));

/** Sums, products and powers of some atoms, called after their kind; they nest in parentheses only. */
const arithmetic = (kind) => {
  const hidden = (name) => `_${kind}_${name}`;
  const or = (inner, name, part) => ($) => choice($[hidden(inner)], alias($[hidden(part)], $[name]));
  return {
    [hidden("sum")]: or("term", "sum", "added"),
    [hidden("added")]: ($) => seq($[hidden("term")], repeat1(seq(choice("+", "-"), $[hidden("term")]))),
    [hidden("term")]: or("factor", "product", "multiplied"),
    [hidden("multiplied")]: ($) => seq($[hidden("factor")], repeat1(seq(choice("*", "/"), $[hidden("factor")]))),
    [hidden("factor")]: or("power", "negation", "negative"),
    [hidden("negative")]: ($) => seq("-", $[hidden("power")]),
    [hidden("power")]: or("atom", "power", "raised"),
    [hidden("raised")]: ($) => seq($[hidden("atom")], "^", choice($[hidden("atom")], alias($[hidden("opposite")], $.negation))),
    [hidden("opposite")]: ($) => seq("-", $[hidden("atom")]),
  };
};

module.exports = grammar({
  name: "xg",
  word: ($) => $._word,
  extras: ($) => [/[ \t\r\n]/, $.comment],
  // the end of a statement: a line end that nothing continues, as src/scanner.c tells
  externals: ($) => [$._newline, $._error_sentinel],
  supertypes: ($) => [$.declaration, $.statement, $.expression],

  rules: {
    source_file: ($) => optional(lines($, $.declaration)),

    declaration: ($) => choice(
      $.edition, $.use, $.dims, $.mesh, $.options, $.op, $.block, $.plan, $.plan_product, $.example,
    ),

    // ---- declarations ---------------------------------------------------------------------------

    edition: ($) => seq("edition", $.number),
    use: ($) => seq("use", list(field("name", $.name)), "from", field("file", choice($.string, $.name))),
    dims: ($) => seq("dim", list($.size)),
    mesh: ($) => seq("mesh", list($.size)),
    size: ($) => seq(field("name", $.name), optional(seq("=", $._size_sum))),
    options: ($) => seq("option", list($.option)),
    option: ($) => seq(field("name", $.name), "=", $.words),
    words: ($) => seq($.name, repeat(seq("|", $.name))),

    op: ($) => seq("op", field("name", $.name), $._signature, optional(seq("->", $.shape)), "=", $.expression, optional(seq("where", $.bindings))),
    bindings: ($) => list($.binding),
    binding: ($) => seq(field("name", $.name), "=", $.expression),

    _signature: ($) => seq("(", optional($.ports), optional(seq(";", list($.own))), ")"),
    ports: ($) => list($.port),
    port: ($) => seq(field("name", $.name), optional($.shape), optional($.range), optional("frozen")),
    range: ($) => seq("in", $._size_sum),
    own: ($) => seq(field("name", $.name), optional($.shape), optional(seq("=", $._default))),
    _default: ($) => choice($.expression, alias($._several_words, $.words)),
    _several_words: ($) => seq($.name, repeat1(seq("|", $.name))),

    block: ($) => seq(
      "block", field("name", $.name), optional(field("title", $.string)), $._signature, "->", field("outputs", $.ports),
      "{", optional(field("body", $.body)), "}",
    ),

    // ---- statements of a block ------------------------------------------------------------------

    body: ($) => lines($, $.statement),
    statement: ($) => choice($.params, $.states, $.next, $.dims, $.highlight, $.note, $.expect, $.chain),
    params: ($) => seq("param", list($.tensor)),
    states: ($) => seq("state", list($.tensor)),
    tensor: ($) => seq(field("name", $.name), optional($.shape), optional($.range), optional(seq("=", $.expression)), optional("frozen")),
    next: ($) => seq("next", $.bindings),
    highlight: ($) => seq("highlight", list($.marked), optional($.string)),
    note: ($) => seq("note", list($.marked), $.string),
    marked: ($) => seq(optional("->"), $.name),

    chain: ($) => seq(list($._source), optional($.label), repeat($.step)),
    step: ($) => seq("->", $.node, optional($.label)),
    label: ($) => seq(":", choice($.ports, $.shape)),

    node: ($) => seq(
      optional($.repeat), field("operator", $.operator), optional($.map), optional($.arguments), repeat($.attached),
      optional($.over), optional($.guard), optional(seq("as", field("instance", $.name))),
    ),
    repeat: ($) => seq(choice($.name, $.number), choice("×", "*")),
    operator: ($) => choice($.name, "•", "@", "⊕", "+", "⊙", "*"),
    attached: ($) => seq(choice("<-", "<="), $._operand),
    over: ($) => seq("over", $.name, optional("reversed")),
    guard: ($) => seq("if", $.name, "=", $.words),

    _operand: ($) => choice($.path, $.call, seq("(", $.branch, ")")),
    branch: ($) => seq(list($._source), optional($.label), repeat1($.step)),
    _source: ($) => choice($._operand, $.named_call),
    named_call: ($) => seq(field("function", $.name), optional($.map), $.arguments, "as", field("instance", $.name)),
    call: ($) => seq(field("function", $.name), optional($.map), $.arguments),
    arguments: ($) => seq("(", optional(list($._argument)), ")"),
    _argument: ($) => choice($.expression, $.named_argument),
    named_argument: ($) => seq(field("name", $.name), "=", $.expression),
    path: ($) => seq($.name, repeat(seq(".", choice($.name, $.number)))),

    // ---- shapes and axes ------------------------------------------------------------------------

    shape: ($) => seq("[", optional(list(choice($._size_sum, ".."))), "]"),
    map: ($) => seq("[", list($._axis), optional(seq("->", list($._axis))), "]"),
    _axis: ($) => choice($._simple_axis, $.axes),
    axes: ($) => seq("(", list($._simple_axis), ")"),
    _simple_axis: ($) => choice($.named_axis, $.number, $.last_axis, ".."),
    named_axis: ($) => seq(field("name", $.name), optional(seq("=", $._size_sum))),
    last_axis: ($) => seq("-", $.number),

    // ---- plans ----------------------------------------------------------------------------------

    plan: ($) => seq("plan", field("name", $.name), optional(field("title", $.string)), "of", field("block", $.name), "{", optional(lines($, $.placement)), "}"),
    plan_product: ($) => seq("plan", field("name", $.name), optional(field("title", $.string)), "=", $.name, repeat(seq(choice("×", "*"), $.name))),
    placement: ($) => seq(
      list($.target),
      choice(
        seq($.shape, optional(seq("->", $.shape)), optional($.name)),
        seq(choice($.name, $.schedule), optional($.counts)),
      ),
    ),
    schedule: () => token(prec(1, "1F1B")),
    counts: ($) => seq("(", list($.number), ")"),
    target: ($) => seq($._segment, repeat(seq(".", $._segment))),
    _segment: ($) => choice($.name, $.number, "*"),

    // ---- documents ------------------------------------------------------------------------------

    example: ($) => seq("example", optional(field("title", $.string)), "of", field("block", $.name), "{", optional(lines($, choice($.givens, $.expect, $.stored))), "}"),
    stored: ($) => choice(
      seq("given", "from", $.string),
      seq("expect", "from", $.string, optional(seq(choice("±", "+/-"), $.expression)), optional($.string)),
    ),
    givens: ($) => seq("given", list($.given)),
    given: ($) => seq($.path, "=", $.expression),
    expect: ($) => seq(
      "expect", $.path, "=", $.expression, optional(seq(choice("±", "+/-"), $.expression)), optional($.string),
      optional(seq("wrong", $.string)),
    ),

    // ---- expressions ----------------------------------------------------------------------------

    expression: ($) => choice($._value_sum, $.comparison),
    comparison: ($) => seq($._value_sum, choice(">", ">="), $._value_sum),
    ...arithmetic("value"),
    _value_atom: ($) => choice($.number, $.path, $.call, $.along, $.wildcard, $.parenthesized, $.array),
    // a name in a shape is one of a size
    ...arithmetic("size"),
    _size_atom: ($) => choice(
      $.number, alias($.name, $.dimension), $.call, $.along, $.wildcard, alias($._size_in_parentheses, $.parenthesized),
    ),
    _size_in_parentheses: ($) => seq("(", $._size_sum, ")"),
    along: ($) => seq(field("function", $.name), $.map),
    wildcard: () => "_",
    parenthesized: ($) => seq("(", $.expression, ")"),
    array: ($) => seq("[", optional(list($.expression)), "]"),

    // ---- tokens ---------------------------------------------------------------------------------

    name: ($) => $._word,
    _word: () => new RegExp(`[${LETTER}][${LETTER}0-9_]*`),
    number: () => /[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?/,
    string: () => /"[^"\n]*"/,
    comment: () => token(/#[^\n]*/),
  },
});
