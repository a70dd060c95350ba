; Later patterns win where several match, as in Neovim and Helix.

(name) @variable

(comment) @comment
(string) @string
(number) @number
(wildcard) @constant.builtin
".." @constant.builtin

; ---- names by their places -------------------------------------------------------------------

(size name: (name) @constant)
(dimension) @constant
(named_axis name: (name) @constant)
(over (name) @constant)
(repeat (name) @constant)
(mesh (size name: (name) @constant))

(label (ports (port name: (name) @property)))
(own name: (name) @variable.parameter)
(named_argument name: (name) @variable.parameter)

(block name: (name) @type)
(plan name: (name) @type)
(plan block: (name) @type)
(plan_product (name) @type)
(example block: (name) @type)
(op name: (name) @function)
(use name: (name) @type)
(operator (name) @function)
(call function: (name) @function)
(named_call function: (name) @function)
(along function: (name) @function)

; ---- words and signs ---------------------------------------------------------------------------

[
  "edition" "use" "dim" "mesh" "option" "op" "block" "param" "state" "next" "plan" "example" "given"
  "expect" "highlight" "note" "from" "where" "in" "as" "if" "over" "reversed" "of" "wrong" "frozen"
] @keyword

["->" "<-" "<=" "•" "@" "⊕" "⊙" "×" "+" "-" "*" "/" "^" ">" ">=" "±" "+/-" "=" "|"] @operator
["," ";" ":" "."] @punctuation.delimiter
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
