// A program as the end of an address, and back: JSON, deflated, in letters that addresses may have.

const LONGEST = 1_000_000; // characters of a program

async function through(stream, data) {
  return new Response(new Blob([data]).stream().pipeThrough(stream));
}

/** The end of an address for what is on the page. */
export async function packed(what) {
  const answer = await through(new CompressionStream("deflate-raw"), JSON.stringify(what));
  const data = new Uint8Array(await answer.arrayBuffer());
  let letters = "";
  for (const byte of data) letters += String.fromCharCode(byte);
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** What the end of an address says; null where it says nothing that can be shown. */
export async function unpacked(letters) {
  try {
    const data = Uint8Array.from(atob(letters.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
    const reader = (await through(new DecompressionStream("deflate-raw"), data)).body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
      if (text.length > LONGEST) { await reader.cancel(); return null; }
    }
    const what = JSON.parse(text);
    const isText = ["name", "text", "view"].every((key) => typeof what?.[key] === "string");
    const fits = ["block", "plan"].every((key) => ["string", "undefined"].includes(typeof what?.[key]));
    return isText && fits && /^[\p{L}\p{N}_-]{1,60}$/u.test(what.name) ? what : null;
  } catch {
    return null;
  }
}
