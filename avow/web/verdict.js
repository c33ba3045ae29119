// The verdict in plain words, before any picture.

import { button, facts, fold, icon, make } from "./build.js";
import { rounded, sentence, stated } from "./words.js";

// search: what the buttons in it do, given the part of the question that changes.
// noun: a number of what was looked at, in words.
export function banner(result, noun, search) {
  const is = result.verdict;
  return make(
    "div",
    { class: "verdict", "data-is": is },
    icon(is),
    make(
      "div",
      {},
      make("h2", {}, result.heading.verdict),
      result.why ? make("p", { class: "why" }, result.why) : null,
      offers(result.understanding, search),
    ),
    sure(result.heading),
    numbers(result, noun),
  );
}

// A heading without a claim has no number: beside "nothing fits" it would say two things at once.
const sure = ({ claim, sure }) => (claim ? make("p", { class: "sure" }, make("b", {}, sure), claim) : make("span"));

// What may have been meant, and what was taken from the words and can be put back.
function offers(told, search) {
  if (!told?.corrected && !told?.without) return null;
  return make(
    "p",
    { class: "offers" },
    told.corrected
      ? button("act", () => search({ text: told.corrected, rewrite: true }), `Search for “${told.corrected}”`)
      : null,
    told.without ? chip(told.without, search) : null,
  );
}

function chip(without, search) {
  const cross = make("span", { "aria-hidden": "true" }, " ×");
  const made = button("chip", () => search({ rewrite: false }), `without ${without}`, cross);
  made.title = "Search for the words as they were typed";
  return made;
}

// In words that everybody knows; what research compares is one level below.
function numbers(result, noun) {
  const [said, many, { claim, sure }] = [result.uncertainty, result.how_many, result.heading];
  if (!said) return null;
  const pairs = [
    ["Looked at", noun(result.searched)],
    [claim && sentence(claim), sure],
    ["That the first one fits", stated(result.hits[0]?.p_relevant)],
    ["Fit in all, on average", many && `${rounded(many.expected)}; four times out of five ${rounded(many.low)} to ${rounded(many.high)}`],
  ];
  // u means nothing without K, tau and the evidence function, so they are shown together
  const research = () => `Uncertainty u = ${said.u.toPrecision(3)} over K = ${said.K} candidates `
    + `(τ = ${said.tau}, ${said.evidence} evidence).`;
  return fold(
    "numbers", "Numbers",
    facts(pairs),
    said.u == null ? null : fold(null, "For research", make("p", {}, research())),
  );
}

export function state(is, title, sentences, action = null) {
  return make(
    "div",
    { class: "state", "data-is": is },
    icon(is),
    make("h2", {}, title),
    sentences.map((one) => make("p", {}, one)),
    action ? button("act", action.run, action.name) : null,
  );
}

export function tokenForm() {
  const box = state("locked", "This server asks for a token", [
    "Open the address that “avow serve” printed, or enter the token here.",
  ]);
  box.append(make(
    "form",
    { action: "./" },
    make("input", { id: "token", name: "token", type: "password", required: true, class: "plain", "aria-label": "Token" }),
    " ",
    make("button", { class: "act" }, "Enter"),
  ));
  return box;
}
