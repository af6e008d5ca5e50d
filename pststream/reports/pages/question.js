"use strict";
(() => {
  const form = document.getElementById("ask");
  const map = document.getElementById("map");
  const bar = document.getElementById("draw");
  if (!form) return;

  // Only the fields of the chosen kind are shown and sent.
  const kind = document.getElementById("ask-kind");
  const rows = [...form.querySelectorAll("[data-kinds]")];
  const input = (name) => document.getElementById(`ask-${name}`);
  const regions = ["bbox", "circle", "geometry"];
  function choose() {
    for (const row of rows) {
      const has = row.dataset.kinds.split(" ").includes(kind.value);
      const field = row.querySelector("input");
      row.hidden = field.disabled = !has;
      if (has && !field.value && field.dataset.usual) field.value = field.dataset.usual;
    }
    for (const button of bar.querySelectorAll("button")) button.hidden = input(button.dataset.draw).disabled;
    press(null);
  }
  kind.addEventListener("change", choose);
  form.addEventListener("submit", () => {
    for (const row of rows) {
      const field = row.querySelector("input");
      if (!field.value.trim()) field.disabled = true;
    }
    setTimeout(choose);
  });
  addEventListener("pageshow", choose);

  // The map: degrees to units and back. The whole view is that of the first view box.
  const whole = map.viewBox.baseVal;
  const [width, height] = [whole.width, whole.height];
  const [west, south, east, north] = ["west", "south", "east", "north"].map((side) => Number(map.dataset[side]));
  const drawn = document.getElementById("drawn");
  const note = document.getElementById("draw-note");
  const x = (lon) => ((lon - west) / (east - west)) * width;
  const y = (lat) => ((north - lat) / (north - south)) * height;
  const exact = (value) => Number(value.toFixed(6));
  function place(event) {
    const box = map.getBoundingClientRect();
    const view = map.viewBox.baseVal;
    const units = [
      view.x + ((event.clientX - box.left) / box.width) * view.width,
      view.y + ((event.clientY - box.top) / box.height) * view.height,
    ];
    return [
      Math.min(Math.max(exact(west + (units[0] / width) * (east - west)), -180), 180),
      Math.min(Math.max(exact(north - (units[1] / height) * (north - south)), -90), 90),
    ];
  }
  const path = (ring, end = "Z") => "M" + ring.map(([lon, lat]) => `${x(lon)} ${y(lat)}`).join("L") + end;

  const RADIUS_M = 6371008.8, RAD = Math.PI / 180;
  function metres([lon, lat], [toLon, toLat]) {
    const a = Math.sin(((toLat - lat) * RAD) / 2) ** 2
      + Math.cos(lat * RAD) * Math.cos(toLat * RAD) * Math.sin(((toLon - lon) * RAD) / 2) ** 2;
    return 2 * RADIUS_M * Math.asin(Math.min(1, Math.sqrt(a)));
  }
  function around([lon, lat], radius) {
    const angle = radius / RADIUS_M;
    return Array.from({ length: 64 }, (_, step) => {
      const turn = (step / 32) * Math.PI;
      const to = Math.asin(Math.sin(lat * RAD) * Math.cos(angle) + Math.cos(lat * RAD) * Math.sin(angle) * Math.cos(turn));
      const by = Math.atan2(
        Math.sin(turn) * Math.sin(angle) * Math.cos(lat * RAD), Math.cos(angle) - Math.sin(lat * RAD) * Math.sin(to));
      return [lon + by / RAD, to / RAD];
    });
  }

  // A tool: `drag` shows and sets its field from two places, `click` from the places of all clicks so far.
  const tools = {
    bbox: {
      hint: "Drag from corner to corner.",
      drag: ([a, b], [c, d]) => {
        const [w, e, s, n] = [Math.min(a, c), Math.max(a, c), Math.min(b, d), Math.max(b, d)];
        return [[w, s, e, n].join(","), path([[w, s], [e, s], [e, n], [w, n]])];
      },
    },
    circle: {
      hint: "Drag from the centre outwards.",
      drag: (centre, edge) => {
        const radius = Math.max(1, Math.round(metres(centre, edge)));
        return [[...centre, radius].join(","), path(around(centre, radius))];
      },
    },
    geometry: {
      hint: "Click each corner; double-click the last one.",
      click: (corners) => [
        corners.length < 3 ? "" : JSON.stringify({ type: "Polygon", coordinates: [[...corners, corners[0]]] }),
        path(corners, corners.length < 3 ? "" : "Z"),
      ],
    },
    point: { hint: "Click a place.", click: (places) => [places.at(-1).join(","), `${path([places.at(-1)], "")}h0`] },
  };
  let tool = null, start = null, corners = [];
  function press(name) {
    tool = name;
    start = null;
    corners = [];
    map.classList.toggle("drawing", name !== null);
    drawn.classList.toggle("asked", name === "point");
    for (const button of bar.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset.draw === name));
    }
    note.textContent = name ? tools[name].hint : "";
  }
  function set([value, shape]) {
    for (const name of tool === "point" ? ["point"] : regions) input(name).value = name === tool ? value : "";
    drawn.setAttribute("d", shape);
  }
  const on = {
    pointerdown: (event) => {
      if (event.button !== 0 || !event.isPrimary) return;
      start = place(event);
      map.setPointerCapture(event.pointerId);
    },
    pointermove: (event) => {
      if (start && tools[tool].drag) set(tools[tool].drag(start, place(event)));
    },
    pointerup: (event) => {
      if (start && tools[tool].click) {
        const last = corners.at(-1), at = place(event);
        if (!last || last.join() !== at.join()) corners.push(at);
        set(tools[tool].click(corners));
      }
      start = null;
    },
    pointercancel: () => { start = null; },
    dblclick: () => press(null),
    click: () => {},
  };
  // Before the listeners of the map, which would move it.
  for (const [name, act] of Object.entries(on)) {
    map.parentNode.addEventListener(name, (event) => {
      if (!tool || !map.contains(event.target)) return;
      event.stopPropagation();
      act(event);
    }, true);
  }
  for (const button of bar.querySelectorAll("button")) {
    button.addEventListener("click", () => press(tool === button.dataset.draw ? null : button.dataset.draw));
  }
  bar.hidden = false;
  choose();
})();
