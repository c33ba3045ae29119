// The address holds the question, so that it can be kept, sent and gone back to.

export const FRESH = {
  text: "", without: "", where: "", kind: "image", k: 12, risk: null, like: null, picture: null,
  rewrite: true,
};

const KINDS = ["image", "picture", "video", "text"];

export function read() {
  const said = new URLSearchParams(location.search);
  const number = (key) => (said.has(key) && !Number.isNaN(+said.get(key)) ? +said.get(key) : null);
  return {
    ...FRESH,
    text: said.get("q") ?? "",
    without: said.get("without") ?? "",
    where: said.get("where") ?? "",
    kind: KINDS.includes(said.get("kind")) ? said.get("kind") : "image",
    k: number("k") || FRESH.k,
    risk: number("risk"),
    like: number("like"),
    picture: said.get("picture"),
    rewrite: said.get("rewrite") !== "false",
  };
}

export function write(query, shownItem = null) {
  const said = new URLSearchParams();
  const put = (key, value, usual) => {
    if (value !== usual && value !== null && value !== "") said.set(key, value);
  };
  put("q", query.text, "");
  put("like", query.like, null);
  put("picture", query.picture, null);
  put("without", query.without, "");
  put("where", query.where, "");
  put("kind", query.kind, "image");
  put("k", query.k, FRESH.k);
  put("risk", query.risk, null);
  put("rewrite", query.rewrite, true);
  put("item", shownItem, null);
  const text = said.toString();
  return text ? `./?${text}` : "./";
}

export function shownItem() {
  const id = new URLSearchParams(location.search).get("item");
  return id && /^\d+$/.test(id) ? +id : null;
}

export const asksSomething = (query) => Boolean(query.text || query.like || query.picture);
