"use strict";
(() => {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark"
      : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // The clipboard's own interface is missing where a page is opened from a file in some browsers.
  const copyByHand = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code").textContent;
      let done = false;
      try {
        await navigator.clipboard.writeText(text);
        done = true;
      } catch {
        done = copyByHand(text);
      }
      const before = button.textContent;
      button.textContent = done ? "Copied" : "Select it and copy by hand";
      setTimeout(() => { button.textContent = before; }, 1500);
    });
  }

  for (const field of document.querySelectorAll("input[data-filter]")) {
    const rows = [...document.getElementById(field.dataset.filter).tBodies[0].rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      rows.forEach((row, i) => row.classList.toggle("hidden", !texts[i].includes(wanted)));
    });
  }

  for (const picture of document.querySelectorAll(".icicle")) {
    const boxes = [...picture.children];
    picture.addEventListener("click", (event) => {
      const box = event.target.closest(".box");
      if (!box) return;
      const from = Number(box.dataset.x), wide = Number(box.dataset.w) || 1;
      for (const each of boxes) {
        const x = (Number(each.dataset.x) - from) / wide, w = Number(each.dataset.w) / wide;
        const start = Math.max(0, x), end = Math.min(1, x + w);
        each.classList.toggle("hidden", end <= start);
        each.style.left = `${start * 100}%`;
        each.style.width = `${(end - start) * 100}%`;
      }
    });
  }
})();
