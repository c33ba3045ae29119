// The risk slider: how many wrong answers are bearable, and what that costs.

import { ask } from "./api.js";
import { fill, find } from "./build.js";
import { risk as written } from "./words.js";

let offered = [];
let usual = null;

export async function load() {
  const told = await ask("api/calibration");
  offered = told.fitted ? told.risks : [];
  usual = told.default_risk;
  Object.assign(find("risk"), { disabled: !offered.length, max: Math.max(offered.length - 1, 0) });
  find("risk-box").dataset.is = offered.length ? "ready" : "absent";
  if (!offered.length) fill("risk-cost", "Not calibrated: answers are ranked, and nothing is promised.");
}

export function set(share) {
  if (!offered.length) return;
  const wanted = share ?? usual ?? offered[0].risk;
  const gaps = offered.map((one) => Math.abs(one.risk - wanted));
  find("risk").value = gaps.indexOf(Math.min(...gaps));
  tell();
}

const picked = () => offered[+find("risk").value];

// The chosen share, or null where it is the usual one.
export function chosen() {
  if (!offered.length) return null;
  const { risk } = picked();
  return risk === usual ? null : risk;
}

export function tell() {
  if (!offered.length) return;
  const one = picked();
  fill("risk-says", written(one.risk));
  find("risk").setAttribute("aria-valuetext", `at most ${written(one.risk)} of answers wrong`);
  fill("risk-cost", one.says);
}
