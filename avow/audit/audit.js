// Ticks become rows of decisions.csv; they survive closing the page where the browser allows.
(() => {
  const columns = ["split", "pair", "image", "caption", "decision", "better_image"];
  const cards = [...document.querySelectorAll(".suspect")];
  const count = document.getElementById("decided");
  const key = `avow audit ${document.body.querySelector("main").dataset.audit || location.pathname}`;

  const decisions = () =>
    cards.flatMap((card) => {
      const chosen = card.querySelector("input:checked");
      return chosen && chosen.value ? [{ ...card.dataset, better_image: card.dataset.better, decision: chosen.value }] : [];
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
    const { value } = card.querySelector("input:checked");
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
    const box = card.querySelector(`input[value="${decision}"]`);
    if (box) box.checked = true;
  }

  const tell = () => {
    count.textContent = `${decisions().length} of ${cards.length} decided`;
  };

  stored().forEach(restore);
  tell();
  for (const card of cards) {
    card.addEventListener("change", () => {
      keep(card);
      tell();
    });
  }

  document.getElementById("save").addEventListener("click", () => {
    const rows = decisions().map((one) => columns.map((name) => quoted(one[name])).join(","));
    const text = [columns.join(","), ...rows, ""].join("\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
