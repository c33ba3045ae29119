// Ticks become rows of decisions.csv; they survive closing the page where the browser allows.
(() => {
  const columns = ["split", "pair", "image", "caption", "decision", "better_image"];
  const list = document.querySelector("main");
  const cards = [...document.querySelectorAll(".suspect")];
  const part = (id) => document.getElementById(id);
  const key = `avow audit ${list.dataset.audit || location.pathname}`;
  const undone = []; // what was chosen before, newest last
  let current = null;

  const chosen = (card) => card.querySelector("input:checked").value;
  const decisions = () =>
    cards.flatMap((card) => {
      const decision = chosen(card);
      return decision ? [{ ...card.dataset, better_image: card.dataset.better, decision }] : [];
    });
  const quoted = (text) => `"${String(text ?? "").replaceAll('"', '""')}"`;

  function stored() {
    try {
      return JSON.parse(localStorage.getItem(key) || "[]");
    } catch {
      return []; // a browser may forbid it; the download works all the same
    }
  }

  // Other pages of the same dataset keep their ticks under the same key, perhaps right now in
  // another tab: so one tick changes one entry, and opening a page changes none.
  function keep(card) {
    const { split, pair, better } = card.dataset;
    const others = stored().filter((one) => one[0] !== split || one[1] !== pair);
    const value = chosen(card);
    try {
      localStorage.setItem(key, JSON.stringify(value ? [...others, [split, pair, value, better]] : others));
    } catch {
      // as above
    }
  }

  function restore([split, pair, decision, better]) {
    const card = cards.find((one) => one.dataset.split === split && one.dataset.pair === pair);
    // another judge may propose another image, and nobody has agreed to that one
    if (!card || (decision === "move" && better !== card.dataset.better)) return;
    mark(card, decision);
  }

  function mark(card, decision) {
    const box = [...card.querySelectorAll("input")].find((one) => one.value === decision);
    if (!box) return false;
    box.checked = true;
    card.dataset.is = decision;
    return true;
  }

  function tell() {
    const count = decisions().length;
    part("decided").textContent = `${count} of ${cards.length} decided`;
    part("share").value = count;
    part("undo").disabled = !undone.length;
  }

  // Choosing what is chosen already takes it back, as a second press of a key should.
  function decide(card, decision, before = card.dataset.is || "") {
    const wanted = before === decision ? "" : decision;
    if (!mark(card, wanted)) return;
    undone.push([card, before]);
    keep(card);
    tell();
  }

  function undo() {
    const last = undone.pop();
    if (!last) return;
    mark(...last);
    keep(last[0]);
    filter();
    look(last[0]);
    tell();
  }

  const shown = () => cards.filter((card) => !card.hidden);

  function look(card) {
    if (!card) return;
    if (current) current.removeAttribute("aria-current");
    current = card;
    card.setAttribute("aria-current", "true");
    card.focus({ preventScroll: true });
    card.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    const rows = shown();
    const place = rows.indexOf(current);
    look(rows[place < 0 ? 0 : Math.min(Math.max(place + by, 0), rows.length - 1)]);
  }

  function filter() {
    const state = part("state").value;
    const words = part("words").value.toLowerCase();
    const least = Number(part("least").value);
    for (const card of cards) {
      const is = chosen(card) || "open";
      const text = `${card.dataset.caption} ${card.dataset.image}`.toLowerCase();
      card.hidden = (state && is !== state) || !text.includes(words) || Number(card.dataset.wrong) < least;
    }
    part("none").hidden = shown().length > 0;
  }

  function save() {
    const rows = decisions().map((one) => columns.map((name) => quoted(one[name])).join(","));
    const text = [columns.join(","), ...rows, ""].join("\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  }

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    x: () => current && decide(current, "wrong"),
    r: () => current && decide(current, "right"),
    m: () => current && decide(current, "move"),
    u: undo,
    s: save,
    "/": () => part("words").focus(),
  };

  stored().forEach(restore);
  tell();
  for (const card of cards) {
    card.addEventListener("change", () => decide(card, chosen(card), card.dataset.is || ""));
    card.addEventListener("click", () => current !== card && look(card));
  }
  for (const id of ["state", "words", "least"]) part(id).addEventListener("input", filter);
  part("undo").addEventListener("click", undo);
  part("save").addEventListener("click", save);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input[type=search], select");
    if (typing && event.key === "Escape") list.focus();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
})();
