// Where a result of the search stands: a guide before a reference, the reason for a decision last.

const LATER = [
  [/^docs\/adr\//, 1000],
  [/^(source\/|CHANGELOG$)/, 500],
  [/^docs\/(adding-|architecture$|ir$|seeds$|speed$)|^CONTRIBUTING$/, 100],
  [/^(docs\/(api|errors)$|gallery\/)/, 50],
];

var Scorer = {
  score: ([name, , anchor, , score]) =>
    /^#xg\d/.test(anchor ?? "") // the code of an error, which is looked for itself
      ? score + 100
      : score - (LATER.find(([page]) => page.test(name))?.[1] ?? 0),
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2, // as in Sphinx
};
