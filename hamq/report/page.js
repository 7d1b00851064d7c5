"use strict";
/* The page: a state (layer, runs, shown axes, a point), the inputs that change it, and `draw`, which shows it.
   Whatever is written into the document goes through textContent. */
(() => {
  const SAMPLES = 121; // per side of a smooth map; odd, so that the middle of the box is one of them
  const MANY = 16; // axes: from here on the list of sliders has more columns, and a filter
  const NOTHING = -1;

  const { make, Panel } = Panels;
  const data = JSON.parse(document.getElementById("data").textContent);
  const axes = data.axes;
  const layers = [...new Set(data.layers.map(({ name }) => name))];
  const hasTables = data.layers.some(({ kind }) => kind === "table");
  // A slider stops at the nodes, where the numbers of a table are; between them where something varies there.
  const isNodal = data.layers.every(({ kind, points }) => kind === "table" && points.every((n, i) => n === axes[i].points));
  const STEPS = isNodal && !data.isSmooth ? 1 : 10; // of a slider, per cell of the grid
  const element = (id) => document.getElementById(id);
  const state = {
    layer: 0,
    run: 0,
    other: data.runs.length > 1 ? 1 : NOTHING,
    x: 0,
    y: axes.length > 1 ? 1 : NOTHING,
    point: axes.map(middle),
    ranges: null,
  };
  const fields = new Map();
  const rows = axes.map(makeSlider);
  const panels = [new Panel(true), new Panel(false), new Panel(false)];
  let isDue = false;

  /** The middle of an axis, or the node nearest to it where sliders stop at nodes. */
  function middle(axis) {
    return axis.lower + (Math.round(numSteps(axis) / 2) / numSteps(axis)) * (axis.upper - axis.lower);
  }

  // The fields that are shown

  /** The chosen layer of a run, null if the run has none; numbers are decoded when they are first shown. */
  function fieldOf(run) {
    const at = data.layers.findIndex((layer) => layer.run === run && layer.name === layers[state.layer]);
    if (at < 0) return null;
    if (!fields.has(at)) fields.set(at, Fields.makeField(data.layers[at], axes));
    const field = fields.get(at);
    if (data.layers[at].kind === "table") field.isSmooth = element("smooth").checked && !field.isStep;
    return field;
  }

  /** What the panels show, in their order: { title, field }, without those that have nothing to show. */
  function shownFields() {
    const [first, second] = [fieldOf(state.run), state.other === NOTHING ? null : fieldOf(state.other)];
    const named = [[data.runs[state.run], first], [data.runs[state.other], second]];
    const found = named.filter(([, field]) => field).map(([title, field]) => ({ title, field }));
    const canDiffer = first && second && state.run !== state.other;
    if (canDiffer) found.push({ title: `${named[0][0]} − ${named[1][0]}`, field: new Fields.Difference(first, second) });
    return found;
  }

  /** Slices of all shown fields over the same parts of the two axes. */
  function shownSlices() {
    const shown = shownFields();
    const parts = ({ index }) => Fields.sampling(shown.map(({ field }) => field), index, axes[index], SAMPLES);
    const [x, y] = [state.x, state.y].map((index) => ({ index, axis: axes[index], ...parts({ index }) }));
    return shown.map(({ title, field }) => {
      const values = field.slice(x.index, y.index, state.point, x.centres, y.centres);
      return { title, field, x, y, values };
    });
  }

  /** Colours: one range for the runs, which are to be compared by eye, and one for their difference. */
  function rangesOf(slices) {
    const isDifference = ({ field }) => field instanceof Fields.Difference;
    const runs = slices.filter((slice) => !isDifference(slice));
    const known = runs.map(({ field }) => field.range).filter((range) => range);
    const { isDiverging, floor } = runs[0]?.field ?? {};
    const joint = known.length === runs.length ? known.flat() : runs.flatMap(({ values }) => Array.from(values));
    const common = Fields.colourRange(joint, isDiverging, floor);
    return slices.map((slice) => (isDifference(slice) ? Fields.colourRange(slice.values, true) : common));
  }

  // Drawing

  function draw() {
    isDue = false;
    const slices = shownSlices();
    const fresh = rangesOf(slices);
    if (!element("held").checked || state.ranges?.length !== slices.length) state.ranges = fresh;
    panels.forEach((panel, i) => (panel.root.hidden = i >= slices.length));
    element("explorer").classList.toggle("comparing", state.other !== NOTHING);
    element("maps").style.setProperty("--count", Math.max(slices.length, 1));
    slices.forEach((slice, i) => {
      const isAlone = data.runs.length < 2;
      const hasContours = element("contours").checked;
      panels[i].draw(slice, state.ranges[i], isAlone ? "" : slice.title, hasContours);
    });
    element("contours-choice").hidden = state.y === NOTHING || !slices.some(({ field }) => field.isSmooth);
    describe();
    placeMarkers();
    readOut(state.point);
    document.documentElement.dataset.ready = "true";
  }

  /** What the layer means, and which of the chosen runs has none. */
  function describe() {
    const name = layers[state.layer];
    const { about } = data.layers.find((layer) => layer.name === name);
    const chosen = [state.run, state.other].filter((run, i, all) => run !== NOTHING && all.indexOf(run) === i);
    const missing = chosen.filter((run) => !fieldOf(run)).map((run) => `${data.runs[run]} has no map of it.`);
    element("about").textContent = [about, ...missing].filter((text) => text).join(" ");
  }

  /** Draws once before the next frame, however often it is asked for. */
  function show() {
    if (!isDue) requestAnimationFrame(draw);
    isDue = true;
  }

  function shownPanels() {
    return panels.filter(({ root }) => !root.hidden);
  }

  /** The values at a point, and where it is on the shown axes. */
  function readOut(point) {
    const shown = [state.x, state.y].filter((i) => i !== NOTHING);
    const at = shown.map((i) => `${axes[i].name} = ${Fields.format(point[i], axisStep(axes[i]) / 10)}`);
    shownPanels().forEach((panel, i) => panel.read(point, i === 0 ? `at ${at.join(", ")}` : ""));
  }

  function placeMarkers() {
    for (const panel of shownPanels()) panel.placeMarker(state.point);
  }

  // Inputs

  function numSteps(axis) {
    return STEPS * (axis.periodic ? axis.points : axis.points - 1);
  }

  function axisStep(axis) {
    return (axis.upper - axis.lower) / numSteps(axis);
  }

  /** One slider; it counts steps, because steps of a float need not reach the end of the axis. */
  function makeSlider(axis, i) {
    const row = make("label", "slider");
    const name = make("span", "name", axis.name);
    const number = make("output", "number");
    const input = make("input", "");
    name.title = axis.name;
    Object.assign(input, { type: "range", min: 0, max: numSteps(axis), step: 1 });
    input.addEventListener("input", () => {
      state.point[i] = axis.lower + (input.value / numSteps(axis)) * (axis.upper - axis.lower);
      label(axis, input, number, state.point[i]);
      show();
    });
    row.append(name, number, input);
    const set = (coordinate) => {
      input.value = Math.round(Drawing.share(axis, coordinate) * numSteps(axis));
      label(axis, input, number, coordinate);
    };
    set(state.point[i]);
    return { row, set };
  }

  function label(axis, input, number, coordinate) {
    number.textContent = Fields.format(coordinate, axisStep(axis));
    input.setAttribute("aria-valuetext", number.textContent);
  }

  /** Sliders of the shown axes stand under the map and move the marker, the others cut the slice. */
  function sortSliders() {
    element("shown").append(...[state.x, state.y].filter((i) => i !== NOTHING).map((i) => rows[i].row));
    element("others").append(...rows.filter((_, i) => i !== state.x && i !== state.y).map(({ row }) => row));
    filterSliders();
  }

  function filterSliders() {
    const wanted = element("filter").value.trim().toLowerCase();
    rows.forEach(({ row }, i) => {
      const isShown = i === state.x || i === state.y;
      row.hidden = !isShown && !axes[i].name.toLowerCase().includes(wanted);
    });
  }

  function reset() {
    state.point = axes.map(middle);
    rows.forEach(({ set }, i) => set(state.point[i]));
    show();
  }

  /** The same axis twice makes no map: the other one takes the place that became free. */
  function chooseAxis(which, other, i) {
    if (i === state[other]) state[other] = state[which];
    state[which] = i;
    element("x").value = state.x;
    element("y").value = state.y;
    sortSliders();
    show();
  }

  function fillSelect(id, names, change) {
    const select = element(id);
    select.append(...names.map(([value, name]) => Object.assign(make("option", "", name), { value })));
    select.value = state[id];
    select.addEventListener("change", () => change(Number(select.value)));
  }

  /** The state under the pointer, or null outside the box. */
  function pointAt(panel, event) {
    const parts = panel.partsAt(event);
    if (!parts) return null;
    const at = (axis, part) => axis.lower + part * (axis.upper - axis.lower);
    const [across, up] = parts;
    return state.point.map((old, i) => (i === state.x ? at(axes[i], across) : i === state.y ? at(axes[i], up) : old));
  }

  function movePoint(point) {
    state.point = point;
    for (const i of [state.x, state.y]) rows[i]?.set(point[i]);
    placeMarkers();
    readOut(point);
  }

  const ARROWS = { ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowDown: ["y", -1], ArrowUp: ["y", 1] };

  function listenToMap(panel) {
    const { map } = panel;
    map.addEventListener("pointermove", (event) => readOut(pointAt(panel, event) ?? state.point));
    map.addEventListener("pointerleave", () => readOut(state.point));
    map.addEventListener("click", (event) => movePoint(pointAt(panel, event) ?? state.point));
    map.addEventListener("keydown", (event) => {
      if (!(event.key in ARROWS) || state[ARROWS[event.key][0]] === NOTHING) return;
      event.preventDefault();
      const [which, sign] = ARROWS[event.key];
      const [i, axis] = [state[which], axes[state[which]]];
      const moved = state.point[i] + sign * axisStep(axis) * (event.shiftKey ? STEPS : 1);
      movePoint(state.point.with(i, Math.min(Math.max(moved, axis.lower), axis.upper)));
    });
  }

  /** Print is light, whatever the screen is. */
  function listenToTheme() {
    const root = document.documentElement;
    const preferred = matchMedia("(prefers-color-scheme: dark)");
    preferred.addEventListener("change", show);
    element("theme").addEventListener("click", () => {
      const isDark = (root.style.colorScheme || (preferred.matches ? "dark" : "light")) === "dark";
      root.style.colorScheme = isDark ? "light" : "dark";
      show();
    });
    let before = "";
    window.addEventListener("beforeprint", () => {
      before = root.style.colorScheme;
      root.style.colorScheme = "light";
      draw();
    });
    window.addEventListener("afterprint", () => {
      root.style.colorScheme = before;
      draw();
    });
  }

  function listenToChoices() {
    const change = (name) => (chosen) => {
      state[name] = chosen;
      state.ranges = null;
      show();
    };
    const numbered = (names) => names.map((name, i) => [i, name]);
    const names = numbered(axes.map(({ name }) => name));
    fillSelect("layer", numbered(layers), change("layer"));
    fillSelect("run", numbered(data.runs), change("run"));
    fillSelect("other", [[NOTHING, "no other"], ...numbered(data.runs)], change("other"));
    fillSelect("x", names, (i) => chooseAxis("x", "y", i));
    fillSelect("y", names, (i) => chooseAxis("y", "x", i));
    element("run-choice").hidden = element("other-choice").hidden = data.runs.length < 2;
    element("y-choice").hidden = element("swap").hidden = axes.length < 2;
    element("swap").addEventListener("click", () => chooseAxis("x", "y", state.y));
    element("reset").addEventListener("click", reset);
    element("filter").addEventListener("input", filterSliders);
    element("smooth-choice").hidden = !hasTables;
    element("shift-help").hidden = STEPS === 1;
    element("smooth").checked = data.isSmooth;
    for (const id of ["held", "contours", "smooth"]) element(id).addEventListener("change", show);
  }

  function start() {
    listenToChoices();
    element("others-panel").classList.toggle("many", axes.length >= MANY);
    element("others-panel").hidden = axes.length < 3;
    element("maps").append(...panels.map(({ root }) => root));
    sortSliders();
    panels.forEach(listenToMap);
    listenToTheme();
    draw();
    new ResizeObserver(show).observe(element("maps"));
  }

  // For animation.js and for tests

  /** Moves to a slice: any of { layer, run, other, x, y, point, smooth }; what is not given stays. `layer`: number or name. */
  function setSlice({ layer = state.layer, smooth, point = state.point, ...rest }) {
    const chosen = typeof layer === "string" ? layers.indexOf(layer) : layer;
    const isOther = chosen !== state.layer || "run" in rest || "other" in rest;
    Object.assign(state, rest, { layer: chosen, point: Array.from(point), ranges: isOther ? null : state.ranges });
    if (smooth !== undefined) element("smooth").checked = smooth;
    for (const id of ["layer", "run", "other", "x", "y"]) element(id).value = state[id];
    rows.forEach(({ set }, i) => set(state.point[i]));
    if ("x" in rest || "y" in rest) sortSliders();
    draw();
  }

  /** What is shown, panel by panel: values[j * xs.length + i] at xs[i] across and ys[j] up. */
  function values() {
    return shownSlices().map(({ title, field, x, y, values: found }) => {
      return { name: field.name, run: title, xs: x.centres, ys: y.centres, values: Array.from(found) };
    });
  }

  /** `mark` moves the ring, and with it the slice, to a state. */
  window.HamqPage = {
    axes,
    data,
    layers,
    mark: (point) => setSlice({ point }),
    state: () => structuredClone(state),
    setSlice,
    values,
  };

  start();
})();
