// Elements from code. Text always becomes text, so a file name cannot become markup.

export function make(tag, given = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...there(inside));
  return element;
}

const there = (inside) => inside.flat(Infinity).filter((one) => one !== null && one !== undefined);

export const button = (kind, run, ...inside) => make("button", { type: "button", class: kind, onclick: run }, ...inside);

// A button with a picture on it, and its name for those who do not see it.
export const press = (shape, words, run) => make(
  "button", { type: "button", class: "icon", "aria-label": words, title: words, onclick: run }, icon(shape),
);

// Names and values; those without a value are left out.
export const facts = (pairs) => make("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(
  ([key, value]) => [make("dt", {}, key), make("dd", {}, value)],
));

export const on = (id, event, run) => find(id).addEventListener(event, run);

export const note = (sentence) => make("p", { class: "note" }, sentence);

// The shapes stand in the markup; each use is a copy.
export function icon(name) {
  const svg = find("shapes").cloneNode();
  svg.append(find(`shape-${name}`).cloneNode());
  for (const one of [svg, svg.firstChild]) one.removeAttribute("id");
  svg.removeAttribute("hidden");
  return svg;
}

export const find = (id) => document.getElementById(id);

// place: an element, or its id.
export const fill = (place, ...inside) => (find(place) ?? place).replaceChildren(...there(inside));

// A meter from 0 to 1; its width is set from code because styles in markup are not allowed.
export function meter(share) {
  const inner = make("span");
  inner.style.width = `${Math.round(Math.min(Math.max(share, 0), 1) * 1000) / 10}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, inner);
}

let clearing = 0;

export function say(sentence, action = null) {
  clearTimeout(clearing);
  const button = action && make("button", { type: "button", onclick: action.run }, action.name);
  fill("toast", sentence, button);
  clearing = setTimeout(() => fill("toast"), action ? 8000 : 4000);
}
