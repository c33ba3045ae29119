// The verdict in plain words, before any picture.

import { icon, make } from "./build.js";
import { VERDICTS, percent } from "./words.js";

export function banner(result) {
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
    ),
    sure(result),
    doubts(result.doubts ?? []),
    numbers(result),
  );
}

function sure(result) {
  const unsaid = result.trust === null || result.trust === undefined;
  // a probability beside "nothing fits" would say two things at once
  if (unsaid || result.verdict === "nothing_found") return make("span");
  const about = "that one of these fits";
  return make("p", { class: "sure" }, make("b", {}, percent(result.trust)), about);
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
