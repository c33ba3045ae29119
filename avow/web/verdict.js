// The verdict in plain words, before any picture.

import { icon, make } from "./build.js";
import { VERDICTS, percent } from "./words.js";

// search: what the buttons in it do, given the part of the question that changes.
export function banner(result, search) {
  const is = result.verdict;
  return make(
    "div",
    { class: "verdict", "data-is": is },
    icon(is),
    make(
      "div",
      {},
      make("h2", {}, VERDICTS[is] ?? is),
      result.why ? make("p", { class: "why" }, result.why) : null,
      offers(result.understanding, search),
    ),
    sure(result),
    doubts(result.doubts ?? []),
    numbers(result),
  );
}

function sure(result) {
  const unsaid = result.trust === null || result.trust === undefined;
  // a probability beside "nothing fits" would say two things at once
  const empty = ["nothing_found", "not_understood"].includes(result.verdict);
  if (unsaid || empty) return make("span");
  const about = "that one of these fits";
  return make("p", { class: "sure" }, make("b", {}, percent(result.trust)), about);
}

// What may have been meant, and what was taken from the words and can be put back.
function offers(told, search) {
  if (!told?.corrected && !told?.without) return null;
  const button = (kind, change, ...inside) => make(
    "button", { type: "button", class: kind, onclick: () => search(change) }, ...inside,
  );
  return make(
    "p",
    { class: "offers" },
    told.corrected
      ? button("act", { text: told.corrected, rewrite: true }, `Search for “${told.corrected}”`)
      : null,
    told.without ? chip(told.without, button) : null,
  );
}

function chip(without, button) {
  const cross = make("span", { "aria-hidden": "true" }, " ×");
  const made = button("chip", { rewrite: false }, `without ${without}`, cross);
  made.title = "Search for the words as they were typed";
  return made;
}

function doubts(sentences) {
  if (!sentences.length) return null;
  return make("ul", { class: "doubts" }, sentences.map((one) => make("li", {}, one)));
}

// u means nothing without K, tau and the evidence function, so they are shown together.
function numbers(result) {
  const said = result.uncertainty;
  if (!said || said.u === null || said.u === undefined) return null;
  const line = `Uncertainty u = ${said.u.toPrecision(3)} over K = ${said.K} candidates `
    + `(τ = ${said.tau}, ${said.evidence} evidence).`;
  return make(
    "details", { class: "numbers" }, make("summary", {}, "Numbers"), make("p", {}, line),
  );
}

export function state(is, title, sentences, action = null) {
  return make(
    "div",
    { class: "state", "data-is": is },
    icon(is),
    make("h2", {}, title),
    sentences.map((one) => make("p", {}, one)),
    action
      ? make("button", { type: "button", class: "act", onclick: action.run }, action.name)
      : null,
  );
}
