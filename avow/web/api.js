// Asking the server: every failure is a Refused with a sentence, or an Offline.

export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export class Offline extends Error {}

export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Offline("The server does not answer.");
  }
  const said = await response.json().catch(() => null);
  if (!response.ok) {
    throw new Refused(response.status, said?.error ?? `The server says ${response.status}.`);
  }
  return said;
}

// What is still wanted when it comes; null where it came too late or was refused.
export async function timely(path, current, refused = null) {
  try {
    const said = await ask(path);
    return current() ? said : null;
  } catch (error) {
    if (current()) refused?.(error.message);
    return null;
  }
}

export const send = (path, content) => ask(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content),
});

export function parameters(given) {
  return new URLSearchParams(Object.entries(given).filter(([, value]) => value != null && value !== ""));
}

// The server looks among all that can be seen; pictures or videos alone are a filter.
function chosen({ kind, where }) {
  if (kind === "image" || kind === "text") return { kind, where };
  const only = `kind=${kind}`;
  return { kind: "image", where: where ? `(${where}) and ${only}` : only };
}

// One search; with a picture it travels as a form.
export function search(query, picture, signal) {
  const asked = {
    text: query.text, without: query.without, ...chosen(query), k: query.k, offset: query.offset, risk: query.risk,
    rewrite: query.rewrite ? null : false,
  };
  if (query.like) {
    const { k, offset, where } = asked;
    return ask(`api/items/${query.like}/similar?${parameters({ k, offset, where })}`, { signal });
  }
  if (!picture) return ask(`api/search?${parameters(asked)}`, { signal });
  const form = new FormData();
  for (const [key, value] of parameters(asked)) form.append(key, value);
  form.append("image", picture, picture.name || "picture");
  return ask("api/search", { method: "POST", body: form, signal });
}

export const original = (id) => `api/items/${id}/picture`;

export const media = (id) => `api/items/${id}/media`;

export const thumbnail = (id, size) => `api/items/${id}/thumbnail?size=${size}`;
