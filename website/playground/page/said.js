// Messages of the compiler: sentences wrap, lines of the text with their marks do not.

const SOURCE = /^ *\d*│/;

/** Scroll to the mark under a line that is longer than the window is wide. */
function showMark(span) {
  const lines = span.textContent.split("\n");
  const [mark, longest] = [Math.max(...lines.map((line) => line.indexOf("^"))), Math.max(...lines.map((line) => line.length))];
  const at = (span.scrollWidth * mark) / longest;
  if (at > 0.9 * span.clientWidth) span.scrollLeft = at - span.clientWidth / 2;
}

/** Put messages into an element, the lines of a source together. */
export function tellIn(element, words) {
  const groups = [];
  for (const line of words.split(/(?<=\n)/)) {
    const isSource = SOURCE.test(line);
    if (groups.at(-1)?.isSource === isSource) groups.at(-1).text += line;
    else groups.push({ isSource, text: line });
  }
  element.replaceChildren(...groups.map(({ isSource, text }) => {
    const span = document.createElement("span");
    span.className = isSource ? "source" : "";
    span.textContent = text;
    return span;
  }));
  for (const span of element.querySelectorAll(".source")) showMark(span);
}
