"use strict";
/* The page: a state (layer, two shown axes, a point), the inputs that change it, and `draw`, which shows it.
   Whatever is written into the document goes through textContent. */
(() => {
  const SAMPLES = 121; // per side of the heat map; odd, so that the middle of the box is one of them
  const SHADES = 1024; // of a colour table; with 256 one sees bands where a field is flat
  const STEPS = 10; // of a slider, per cell of the grid
  const MANY = 16; // axes: from here on the list of sliders has more columns, and a filter
  const MARGIN = { left: 58, right: 14, top: 8, bottom: 46 };
  const VALUES =
    "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 fde725";
  const DIVERGING = "123a78 2463ad 5e97cf a3c6e6 d8e6f2 f7f6f4 f6ddd0 eeb297 da7458 b93632 7a1226";

  const data = JSON.parse(document.getElementById("data").textContent);
  const axes = data.axes;
  const element = (id) => document.getElementById(id);
  const middle = (axis) => (axis.lower + axis.upper) / 2;
  const state = { layer: 0, x: 0, y: 1, point: axes.map(middle), range: null };
  const fields = [];
  const rows = axes.map(makeSlider);
  let isDue = false;

  /** The field of the chosen layer; cores are decoded when they are first shown. */
  function shownField() {
    fields[state.layer] ??= Fields.makeField(data.layers[state.layer], axes);
    return fields[state.layer];
  }

  function make(tag, className, text = "") {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    return made;
  }

  // Colours

  /** SHADES colours as [r, g, b], linear between the given ones. */
  function colourTable(stops) {
    const colours = stops.split(" ").map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    return Array.from({ length: SHADES }, (_, i) => {
      const position = (i / (SHADES - 1)) * (colours.length - 1);
      const below = Math.min(Math.floor(position), colours.length - 2);
      return colours[below].map((low, c) => low + (position - below) * (colours[below + 1][c] - low));
    });
  }
  const TABLES = { values: colourTable(VALUES), diverging: colourTable(DIVERGING) };

  /** A picture of values[height, width], first row at the bottom. */
  function picture(values, width, height, [low, high], table) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    values.forEach((value, i) => {
      const part = Math.min(Math.max((value - low) / (high - low), 0), 1);
      const [x, y] = [i % width, height - 1 - Math.floor(i / width)];
      const at = 4 * (y * width + x);
      image.data.set(table[Math.round((SHADES - 1) * part)], at);
      image.data[at + 3] = 255;
    });
    context.putImageData(image, 0, 0);
    return canvas;
  }

  /** A canvas with as many pixels as the screen has for it, measured in CSS pixels; in the colour of the text. */
  function prepared(canvas) {
    const [ratio, width, height] = [window.devicePixelRatio || 1, canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const context = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    context.scale(ratio, ratio);
    context.font = `12px ${style.fontFamily}`;
    context.fillStyle = context.strokeStyle = style.color;
    context.imageSmoothingQuality = "high";
    return [context, width, height];
  }

  // The map

  function box() {
    const { clientWidth, clientHeight } = element("map");
    const width = clientWidth - MARGIN.left - MARGIN.right;
    return { left: MARGIN.left, top: MARGIN.top, width, height: clientHeight - MARGIN.top - MARGIN.bottom };
  }

  function share(axis, coordinate) {
    return (coordinate - axis.lower) / (axis.upper - axis.lower);
  }

  function drawAxes(context, frame) {
    const [axisX, axisY] = [axes[state.x], axes[state.y]];
    const mark = (axis, count, place) => {
      const found = Fields.ticks(axis.lower, axis.upper, count);
      for (const tick of found) place(tick, Fields.format(tick, found[1] - found[0]));
    };
    context.textAlign = "center";
    mark(axisX, frame.width / 80, (tick, text) => {
      const x = frame.left + share(axisX, tick) * frame.width;
      context.fillRect(x - 0.5, frame.top + frame.height, 1, 4);
      context.fillText(text, x, frame.top + frame.height + 17);
    });
    context.textAlign = "right";
    mark(axisY, frame.height / 60, (tick, text) => {
      const y = frame.top + (1 - share(axisY, tick)) * frame.height;
      context.fillRect(frame.left - 4, y - 0.5, 4, 1);
      context.fillText(text, frame.left - 8, y + 4);
    });
    context.textAlign = "center";
    context.font = `600 ${context.font}`;
    context.fillText(axisX.name, frame.left + frame.width / 2, frame.top + frame.height + 37, frame.width);
    context.translate(13, frame.top + frame.height / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(axisY.name, 0, 0, frame.height);
  }

  function drawContours(context, frame, values, [low, high]) {
    const [dx, dy] = [frame.width / SAMPLES, frame.height / SAMPLES];
    const bottom = frame.top + frame.height;
    context.save();
    context.strokeStyle = "rgba(0, 0, 0, 0.35)";
    context.lineWidth = 0.8;
    context.beginPath();
    for (const level of Fields.ticks(low, high, 9))
      for (const [x0, y0, x1, y1] of Fields.contour(values, SAMPLES, SAMPLES, level)) {
        context.moveTo(frame.left + (x0 + 0.5) * dx, bottom - (y0 + 0.5) * dy);
        context.lineTo(frame.left + (x1 + 0.5) * dx, bottom - (y1 + 0.5) * dy);
      }
    context.stroke();
    context.restore();
  }

  function drawMap(field, values, range) {
    const [context] = prepared(element("map"));
    const frame = box();
    const table = field.isDiverging ? TABLES.diverging : TABLES.values;
    context.drawImage(picture(values, SAMPLES, SAMPLES, range, table), frame.left, frame.top, frame.width, frame.height);
    if (element("contours").checked) drawContours(context, frame, values, range);
    drawAxes(context, frame);
  }

  function drawBar(field, range) {
    const [context, width] = prepared(element("bar"));
    const [low, high] = range;
    const [left, length] = [MARGIN.left, width - MARGIN.left - MARGIN.right];
    const shades = Float32Array.from({ length: SHADES }, (_, i) => i);
    const table = field.isDiverging ? TABLES.diverging : TABLES.values;
    context.drawImage(picture(shades, SHADES, 1, [0, SHADES - 1], table), left, 0, length, 12);
    context.textAlign = "center";
    const found = Fields.ticks(low, high, Math.max(length / 75, 4));
    for (const tick of found) {
      const x = left + ((tick - low) / (high - low)) * length;
      context.fillRect(x - 0.5, 12, 1, 4);
      context.fillText(Fields.format(tick, found[1] - found[0]), x, 29);
    }
  }

  function withUnit(number, field) {
    return field.unit ? `${number} ${field.unit}` : number;
  }

  /** The value at a point, and where it is on the two shown axes. */
  function readOut(point) {
    const field = shownField();
    const [value] = field.slice(state.x, state.y, point, [point[state.x]], [point[state.y]]);
    element("value").textContent = withUnit(Fields.format(value), field);
    const at = [state.x, state.y].map((i) => `${axes[i].name} = ${Fields.format(point[i], axisStep(axes[i]))}`);
    element("where").textContent = `at ${at.join(", ")}`;
  }

  function placeMarker() {
    const frame = box();
    element("marker").style.left = `${frame.left + share(axes[state.x], state.point[state.x]) * frame.width}px`;
    element("marker").style.top = `${frame.top + (1 - share(axes[state.y], state.point[state.y])) * frame.height}px`;
  }

  function draw() {
    isDue = false;
    const field = shownField();
    const centres = [state.x, state.y].map((i) => Fields.pixelCentres(axes[i], SAMPLES));
    const values = field.slice(state.x, state.y, state.point, ...centres);
    const seen = Fields.colourRange(values, false);
    if (!element("held").checked || !state.range) state.range = Fields.colourRange(values, field.isDiverging);
    drawMap(field, values, state.range);
    drawBar(field, state.range);
    placeMarker();
    readOut(state.point);
    element("layer-name").textContent = field.unit ? `${field.name} [${field.unit}]` : field.name;
    element("extremes").textContent = `this slice: min ${Fields.format(seen[0])}, max ${Fields.format(seen[1])}`;
  }

  /** Draws once before the next frame, however often it is asked for. */
  function show() {
    if (!isDue) requestAnimationFrame(draw);
    isDue = true;
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
      input.value = Math.round(share(axis, coordinate) * numSteps(axis));
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
    element("shown").append(rows[state.x].row, rows[state.y].row);
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

  function fillSelect(id, names, chosen, change) {
    const select = element(id);
    select.append(...names.map((name, i) => Object.assign(make("option", "", name), { value: i })));
    select.value = chosen;
    select.addEventListener("change", () => change(Number(select.value)));
  }

  /** The state under the pointer, or null outside the box. */
  function pointAt(event) {
    const [frame, canvas] = [box(), element("map").getBoundingClientRect()];
    const across = (event.clientX - canvas.left - frame.left) / frame.width;
    const up = 1 - (event.clientY - canvas.top - frame.top) / frame.height;
    if (Math.min(across, up) < 0 || Math.max(across, up) > 1) return null;
    const at = (axis, part) => axis.lower + part * (axis.upper - axis.lower);
    return state.point.map((old, i) => (i === state.x ? at(axes[i], across) : i === state.y ? at(axes[i], up) : old));
  }

  function movePoint(point) {
    state.point = point;
    for (const i of [state.x, state.y]) rows[i].set(point[i]);
    placeMarker();
    readOut(point);
  }

  const ARROWS = { ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowDown: ["y", -1], ArrowUp: ["y", 1] };

  function listenToMap() {
    const map = element("map");
    map.addEventListener("pointermove", (event) => readOut(pointAt(event) ?? state.point));
    map.addEventListener("pointerleave", () => readOut(state.point));
    map.addEventListener("click", (event) => movePoint(pointAt(event) ?? state.point));
    map.addEventListener("keydown", (event) => {
      if (!(event.key in ARROWS)) return;
      event.preventDefault();
      const [which, sign] = ARROWS[event.key];
      const [i, axis] = [state[which], axes[state[which]]];
      const moved = state.point[i] + sign * axisStep(axis) * (event.shiftKey ? STEPS : 1);
      movePoint(state.point.with(i, Math.min(Math.max(moved, axis.lower), axis.upper)));
    });
  }

  function listenToTheme() {
    const root = document.documentElement;
    const preferred = matchMedia("(prefers-color-scheme: dark)");
    preferred.addEventListener("change", show);
    element("theme").addEventListener("click", () => {
      const isDark = (root.style.colorScheme || (preferred.matches ? "dark" : "light")) === "dark";
      root.style.colorScheme = isDark ? "light" : "dark";
      show();
    });
  }

  function start() {
    const names = axes.map(({ name }) => name);
    fillSelect("layer", data.layers.map(({ name }) => name), 0, (i) => {
      state.layer = i;
      state.range = null;
      show();
    });
    fillSelect("x", names, 0, (i) => chooseAxis("x", "y", i));
    fillSelect("y", names, 1, (i) => chooseAxis("y", "x", i));
    element("swap").addEventListener("click", () => chooseAxis("x", "y", state.y));
    element("reset").addEventListener("click", reset);
    element("filter").addEventListener("input", filterSliders);
    element("others-panel").classList.toggle("many", axes.length >= MANY);
    element("others-panel").hidden = axes.length < 3;
    for (const id of ["held", "contours"]) element(id).addEventListener("change", show);
    sortSliders();
    listenToMap();
    listenToTheme();
    draw();
    new ResizeObserver(show).observe(element("map"));
  }

  start();
})();
