// The risk slider: how many wrong answers are bearable, and what that costs.

import { ask } from "./api.js";
import { fill, find, make } from "./build.js";
import { risks as written } from "./words.js";

let offered = []; // the usual risk first

export async function load() {
  const told = await ask("api/calibration");
  offered = told.fitted ? told.risks : [];
  Object.assign(find("risk"), { disabled: !offered.length, max: Math.max(offered.length - 1, 0) });
  find("risk-box").dataset.is = offered.length ? "ready" : "absent";
  if (!offered.length) fill("risk-cost", "Not calibrated: answers are ranked, and nothing is promised.");
}

export function set(share) {
  if (!offered.length) return;
  const named = offered.slice(1).map((one) => Math.abs(one.risk - share));
  find("risk").value = share == null ? 0 : 1 + named.indexOf(Math.min(...named));
  tell();
}

const picked = () => offered[+find("risk").value];

// The chosen share, or null where it is the usual one.
export const chosen = () => (offered.length ? picked().risk : null);

export function tell() {
  if (!offered.length) return;
  const one = picked();
  fill("risk-says", written(one.kinds));
  find("risk").setAttribute("aria-valuetext", `at most ${written(one.kinds)} of answers wrong`);
  fill("risk-cost", one.kinds.map((kind) => make("span", {}, kind.says)));
}
