"use strict";
(() => {
  const map = document.getElementById("map");
  const tip = document.getElementById("tip");
  const chosen = document.getElementById("chosen");
  const region = document.getElementById("region");
  if (!map) return;

  // Zoom and pan: the view box is the only state.
  const full = map.viewBox.baseVal;
  const whole = { x: full.x, y: full.y, w: full.width, h: full.height };
  let view = { ...whole };
  const labels = [...map.querySelectorAll(".worker-names text")];

  function draw() {
    map.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
    const unit = view.w / (map.clientWidth || whole.w);
    map.style.setProperty("--unit", unit);
    map.classList.toggle("near", view.w < whole.w * 0.999);
    for (const label of labels) label.style.display = label.dataset.width / unit < 15 ? "none" : "";
  }
  function zoom(factor, x = view.x + view.w / 2, y = view.y + view.h / 2) {
    const w = Math.min(Math.max(view.w * factor, whole.w / 400), whole.w);
    const scale = w / view.w;
    move({ x: x - (x - view.x) * scale, y: y - (y - view.y) * scale, w, h: view.h * scale });
  }
  function move(to) {
    to.x = Math.min(Math.max(to.x, whole.x), whole.x + whole.w - to.w);
    to.y = Math.min(Math.max(to.y, whole.y), whole.y + whole.h - to.h);
    view = to;
    draw();
  }
  function place(event) {
    const box = map.getBoundingClientRect();
    return {
      x: view.x + ((event.clientX - box.left) / box.width) * view.w,
      y: view.y + ((event.clientY - box.top) / box.height) * view.h,
    };
  }
  const steps = { in: () => zoom(0.5), out: () => zoom(2), all: () => move({ ...whole }) };
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", steps[button.dataset.zoom]);
  }
  map.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const at = place(event);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, at.x, at.y);
  }, { passive: false });
  map.addEventListener("dblclick", (event) => {
    const at = place(event);
    zoom(0.5, at.x, at.y);
  });
  let drag = null;
  map.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && event.isPrimary) drag = { x: event.clientX, y: event.clientY, from: { ...view }, moved: false };
  });
  map.addEventListener("pointermove", (event) => {
    if (!drag || !event.isPrimary) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 5) return;
    if (!drag.moved) map.setPointerCapture(event.pointerId);
    drag.moved = true;
    map.classList.add("dragged");
    const unit = view.w / map.clientWidth;
    move({ ...drag.from, x: drag.from.x - dx * unit, y: drag.from.y - dy * unit });
  });
  for (const end of ["pointerup", "pointercancel"]) {
    map.addEventListener(end, () => {
      map.classList.remove("dragged");
      setTimeout(() => { drag = null; });
    });
  }

  // Tips: text of data-tip, never markup.
  function show(target, x, y) {
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - box.width - 6))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(6, y - box.height - 10) : y + 18}px`;
  }
  document.addEventListener("pointermove", (event) => {
    const target = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
    if (target && !(drag && drag.moved)) show(target, event.clientX, event.clientY);
    else tip.hidden = true;
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

  // Matches: a dot shows its rows of the table beside the map, and the subscription's region.
  const dots = [...map.querySelectorAll(".match")];
  const rows = (dot) => dot.dataset.rows.split(" ").map((number) => document.getElementById(`pair-${number}`));

  function choose(dot, only) {
    for (const old of document.querySelectorAll(".match.chosen, .pairs tr.chosen")) old.classList.remove("chosen");
    dot.classList.add("chosen");
    // A dot that moves loses the focus, whose return would choose it once more.
    if (dot !== dot.parentNode.lastElementChild) dot.parentNode.append(dot);
    const found = only ? [only] : rows(dot);
    const title = document.createElement("h3");
    title.textContent = found.length === 1 ? chosen.dataset.one || "Matched object and subscription" : `${found.length} matches of this object`;
    chosen.replaceChildren(title, ...found.map((row) => {
      row.classList.add("chosen");
      const article = document.createElement("article");
      for (const cell of row.cells) article.append(...[...cell.childNodes].map((node) => node.cloneNode(true)));
      return article;
    }));
    const regions = new Set(found.map((row) => row.dataset.region));
    region.setAttribute("d", [...regions].map((id) => document.getElementById(id).getAttribute("d")).join(""));
  }
  for (const dot of dots) {
    dot.addEventListener("click", () => { if (!(drag && drag.moved)) choose(dot); });
    dot.addEventListener("focus", () => {
      const box = dot.getBoundingClientRect();
      if (dot.matches(":focus-visible")) { choose(dot); show(dot, box.left, box.bottom); dot.focus(); }
    });
  }
  const order = [...dots];
  map.addEventListener("keydown", (event) => {
    const at = order.indexOf(document.activeElement);
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (at < 0) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(order[at]); }
    if (!by) return;
    event.preventDefault();
    const next = order[(at + by + order.length) % order.length];
    order[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  for (const button of document.querySelectorAll(".show")) {
    const row = document.getElementById(`pair-${button.dataset.row}`);
    const dot = dots.find((one) => one.dataset.rows.split(" ").includes(button.dataset.row));
    if (!dot) { button.remove(); continue; }
    button.addEventListener("click", () => {
      choose(dot, row);
      const box = region.getBBox();
      const w = Math.min(Math.max(box.width * 3, (box.height * 3 * whole.w) / whole.h, whole.w / 60), whole.w);
      const h = (w * whole.h) / whole.w;
      move({ x: Number(row.dataset.x) - w / 2, y: Number(row.dataset.y) - h / 2, w, h });
      map.scrollIntoView({ block: "center" });
    });
  }
  const titled = dots.filter((dot) => rows(dot).some((row) => row.querySelector("code")));
  const first = titled.length ? titled : dots;
  if (first.length) choose(first[chosen.dataset.one ? 0 : first.length >> 1]);

  for (const box of document.querySelectorAll("[data-layer]")) {
    box.addEventListener("change", () => map.classList.toggle(`hide-${box.dataset.layer}`, !box.checked));
  }
  const find = document.getElementById("find");
  if (find) {
    const all = [...document.querySelectorAll("#pairs tbody tr")];
    find.addEventListener("input", () => {
      const wanted = find.value.trim().toLowerCase();
      for (const row of all) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
  }
  addEventListener("resize", draw);
  draw();
})();
