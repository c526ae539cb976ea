// SPDX-License-Identifier: BSD-3-Clause
// The search wants all words on one page. A longer text is a message from a terminal, with paths and numbers of its own: only
// its words that the page of the messages has are looked for.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const query = Search.query;
  Search.query = (text) => {
    const page = Search._index.docnames.indexOf("troubleshooting");
    const is_there = (word) => [Search._index.terms[new Stemmer().stemWord(word.toLowerCase())]].flat().includes(page);
    const words = splitQuery(text);
    const there = words.filter(is_there);
    const is_message = words.length > 4 && there.length > 1;
    if (is_message) Scorer.score = ([docname, , , , score]) => score + (docname === "troubleshooting" ? 100 : 0);
    return query(is_message ? there.join(" ") : text);
  };
});
