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

  function told() {
    const made = decisions();
    count.textContent = `${made.length} of ${cards.length} decided`;
    try {
      localStorage.setItem(key, JSON.stringify(made.map((one) => [one.split, one.pair, one.decision])));
    } catch {
      // a browser may forbid it; the download works all the same
    }
  }

  try {
    for (const [split, pair, decision] of JSON.parse(localStorage.getItem(key) || "[]")) {
      const card = cards.find((one) => one.dataset.split === split && one.dataset.pair === pair);
      const box = card && card.querySelector(`input[value="${decision}"]`);
      if (box) box.checked = true;
    }
  } catch {
    // nothing was kept, or not by this page
  }
  document.addEventListener("change", told);
  told();

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
