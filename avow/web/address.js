// The address holds the question, so that it can be kept, sent and gone back to.

import { parameters } from "./api.js";

export const FRESH = {
  text: "", without: "", where: "", kind: "image", k: 12, risk: null, like: null, picture: null,
  rewrite: true,
};

const KINDS = ["image", "picture", "video", "text"];
const NUMBERS = ["k", "risk", "like"];

export function read() {
  const query = { ...FRESH };
  for (const [key, value] of new URLSearchParams(location.search)) {
    const part = key === "q" ? "text" : key;
    if (part === "kind" ? !KINDS.includes(value) : !(part in FRESH)) continue;
    if (!NUMBERS.includes(part)) query[part] = part === "rewrite" ? value !== "false" : value;
    else if (+value) query[part] = +value;
  }
  return query;
}

export function write(query, shownItem = null) {
  const said = Object.keys(FRESH).filter((key) => query[key] !== FRESH[key]).map((key) => [key === "text" ? "q" : key, query[key]]);
  const text = parameters({ ...Object.fromEntries(said), item: shownItem }).toString();
  return text ? `./?${text}` : "./";
}

export function shownItem() {
  const id = new URLSearchParams(location.search).get("item");
  return /^\d+$/.test(id) ? +id : null;
}

export const asksSomething = (query) => Boolean(query.text || query.like || query.picture);
