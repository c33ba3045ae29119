// What ticks change: told after each of them, in a line below the verdict.

import { send } from "./api.js";
import { fill, find, make } from "./build.js";

let busy = false;
let again = false; // another tick came while the server was learning from the last

export const clear = () => fill(find("ticks"));

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

function show(told, search) {
  if (!told.used) return clear();
  fill(
    find("ticks"),
    make(
      "p",
      { class: "ticks" },
      `${told.says} ${told.outlook} `,
      make("button", { type: "button", class: "act", onclick: search }, "Search again with it"),
    ),
  );
}
