// What ticks change: told after each of them, in a line below the verdict.

import { send } from "./api.js";
import { button, fill, make } from "./build.js";
import { count, percent } from "./words.js";

let busy = false;
let again = false; // another tick came while the server was learning from the last

export const clear = () => fill("ticks");

export async function learn(search) {
  again = true;
  if (busy) return;
  busy = true;
  try {
    while (again) {
      again = false;
      const told = await send("api/ticks", {});
      if (!again) show(told, search);
    }
  } catch {
    clear(); // the tick itself is kept, and counts when the next one is learnt from
  } finally {
    busy = false;
  }
}

// New pictures came in since the question was answered.
export function grown(many, search) {
  const words = `${count(many, "picture is", "pictures are")} new since. `;
  fill("ticks", make("p", { class: "ticks" }, words, button("act", search, "Search again")));
}

function show(told, search) {
  if (!told.used) return clear();
  const off = (error) => percent(Math.sqrt(error));
  const [before, after] = [told.error_before, told.error_after].map(off);
  const now = before === after ? "and still are" : `and now by ${after}`;
  const effect = told.error_after === null ? "" : `The numbers were off by ${before} on average, ${now}. `;
  const all = told.ticks + (told.more ?? 0);
  fill(
    "ticks",
    make("p", { class: "ticks" }, `${told.says} ${effect}${told.outlook} `, button("act", search, "Search again with it")),
    make("progress", { max: all, value: told.ticks, "aria-label": `${told.ticks} of about ${all} ticks` }),
  );
}
