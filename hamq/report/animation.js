"use strict";
/* The player: rollouts that were made in Python, frame by frame, in the section `animation`.

   A frame is a list of lines, discs and boxes in the units of the scene; nothing here knows what they stand for. While
   "Maps follow" is on, HamqPage.mark moves the ring of the maps, and the sliders of the other axes, to the shown state.
   Nothing plays unless it is asked to. Whatever is written into the document goes through textContent. */
(() => {
  const TONES = ["body", "accent", "ground", "force"]; // the order of hamq/problem/scene.py
  const LINE = 0, DISC = 1; // and 2: a box
  const NUM_COORDINATES = [5, 3, 4];
  const SPEEDS = [2, 5, 10, 20, 40]; // steps per second
  const SPEED = 10;
  const MANY = 8; // curves: more of them scroll
  const MOST_ACTIONS = 3; // written out under a picture
  const READINGS = ["action", "reward", "return"];
  const NUM_HUES = 8; // of page.css

  const data = JSON.parse(document.getElementById("data").textContent);
  const { axes } = data;
  const section = document.getElementById("animation");
  const rollouts = data.animations.flatMap(({ view, unit, rollouts: found }) => found.map((r) => decoded(r, view, unit)));
  const last = Math.max(...rollouts.map(({ length }) => length)) - 1;
  const series = [...axes.map(stateSeries), ...actionNames().map(actionSeries)];
  const rewardStep = largest(rollouts.flatMap(({ rewards }) => Array.from(rewards))) / 100;
  const player = { t: 0, isPlaying: false, since: 0 };
  const parts = {};

  // Data

  function bytes(text) {
    return new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  }

  function largest(values) {
    return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  }

  function decoded(rollout, view, unit) {
    const arrays = ["states", "actions", "rewards", "returns"].map((name) => [name, Fields.decode(rollout[name])]);
    const frames = rollout.frames === null ? null : decodedFrames(bytes(rollout.frames), unit);
    return { ...rollout, ...Object.fromEntries(arrays), frames, view };
  }

  /** Frames as lists of { kind, tone, numbers }. */
  function decodedFrames(view, unit) {
    const frames = [];
    let at = 0;
    const next = () => view.getInt16(2 * at++, true);
    while (2 * at < view.byteLength)
      frames.push(
        Array.from({ length: next() }, () => {
          const code = next();
          const [kind, tone] = [Math.floor(code / TONES.length), TONES[code % TONES.length]];
          return { kind, tone, numbers: Array.from({ length: NUM_COORDINATES[kind] }, () => unit * next()) };
        }),
      );
    return frames;
  }

  /** Row t of an array [T, columns]; a rollout that has ended stays in its last one. */
  function row(rollout, name, t) {
    const width = rollout[name].length / rollout.length;
    const at = Math.min(t, rollout.length - 1) * width;
    return Array.from(rollout[name].subarray(at, at + width));
  }

  function stateSeries(axis, i) {
    const values = (rollout, t) => row(rollout, "states", t)[i];
    const turn = axis.periodic ? axis.upper - axis.lower : Infinity;
    return { name: axis.name, low: axis.lower, high: axis.upper, turn, values };
  }

  function actionNames() {
    const count = rollouts[0].actions.length / rollouts[0].length;
    return count === 1 ? ["action"] : Array.from({ length: count }, (_, i) => `action ${i + 1}`);
  }

  function actionSeries(name, i, { length }) {
    const values = (rollout, t) => row(rollout, "actions", t)[i];
    const seen = rollouts.flatMap(({ actions }) => Array.from(actions.filter((_, k) => k % length === i)));
    const [low, high] = Fields.colourRange(seen, false);
    return { name, low, high, turn: Infinity, values };
  }

  // Document

  function make(tag, given = {}, ...children) {
    const { text, label, ...rest } = given;
    const made = Object.assign(document.createElement(tag), rest);
    if (text !== undefined) made.textContent = text;
    if (label !== undefined) made.setAttribute("aria-label", label);
    made.append(...children);
    return made;
  }

  function button(id, label, press) {
    const made = make("button", { type: "button", id }, make("i"));
    made.addEventListener("click", press);
    nameButton(made, id, label);
    return made;
  }

  /** `icon` is a class of animation.css. */
  function nameButton(made, icon, label) {
    made.firstChild.className = `icon ${icon}`;
    made.title = label;
    made.setAttribute("aria-label", label);
  }

  function hue(i) {
    return `hue-${i % NUM_HUES}`;
  }

  /** A rollout's picture, its name where there are several, and what happens in the shown step. */
  function makeStage(rollout, i) {
    const title = make("span", { className: `key ${hue(i)}`, text: rollout.name, title: rollout.name });
    const canvas = make("canvas", { className: "scene", tabIndex: 0, hidden: rollout.frames === null });
    canvas.setAttribute("role", "img");
    canvas.addEventListener("click", toggle);
    if (rollout.view) {
      const [left, right, bottom, top] = rollout.view;
      canvas.style.aspectRatio = (right - left) / (top - bottom);
    }
    const reading = READINGS.map(() => make("dd"));
    const terms = READINGS.map((text, k) => make("div", {}, make("dt", { text }), reading[k]));
    const note = make("p", { className: "ended", text: "ended", hidden: true });
    const stage = make(
      "figure",
      { className: "stage" },
      make("figcaption", { hidden: rollouts.length === 1 }, title),
      make("div", { className: "picture" }, canvas, note),
      make("dl", { className: "step" }, ...terms),
    );
    return { stage, canvas, reading, note };
  }

  function makeControls() {
    parts.play = button("play", "Play", toggle);
    parts.speed = make("select", { id: "speed", label: "Speed" });
    parts.speed.append(...SPEEDS.map((speed) => make("option", { value: speed, text: `${speed} steps/s` })));
    parts.speed.value = SPEED;
    const restart = button("restart", "Restart", () => seek(0));
    const back = button("back", "One step back", () => seek(player.t - 1));
    const on = button("on", "One step on", () => seek(player.t + 1));
    return make("div", { className: "controls" }, parts.play, restart, back, on, parts.speed);
  }

  function makeScrub() {
    parts.range = make("input", { type: "range", id: "scrub", min: 0, max: last, value: 0, label: "Step of the rollout" });
    parts.range.addEventListener("input", () => seek(Number(parts.range.value)));
    parts.step = make("span", { id: "step" });
    return make("div", { className: "controls" }, parts.range, parts.step);
  }

  function makeOptions() {
    parts.loop = make("input", { type: "checkbox", id: "loop", checked: true });
    parts.follow = make("input", { type: "checkbox", id: "follow", checked: true });
    parts.whose = make("select", { id: "whose", label: "Whose state the maps follow", hidden: rollouts.length === 1 });
    parts.whose.append(...rollouts.map(({ name }, i) => make("option", { value: i, text: name })));
    for (const input of [parts.follow, parts.whose]) input.addEventListener("change", mark);
    const follow = make("label", {}, parts.follow, "Maps follow");
    return make("div", { className: "options" }, make("label", {}, parts.loop, "Loop"), follow, parts.whose);
  }

  /** One small chart per coordinate and actuator: a canvas for each rollout on top of each other, and a cursor. */
  function makeSeries(one) {
    one.canvases = rollouts.map((_, i) => make("canvas", { className: hue(i) }));
    one.numbers = rollouts.map((_, i) => make("span", { className: `number ${hue(i)}` }));
    const chart = make("div", { className: "chart" }, ...one.canvases, make("i", { className: "cursor" }));
    chart.addEventListener("pointerdown", (event) => chart.setPointerCapture(event.pointerId));
    for (const kind of ["pointerdown", "pointermove"])
      chart.addEventListener(kind, (event) => {
        const { left, width } = chart.getBoundingClientRect();
        if (event.buttons) seek(Math.round((last * (event.clientX - left)) / width));
      });
    const title = make("span", { className: "name", text: one.name, title: one.name });
    return make("div", { className: "series" }, title, ...one.numbers, chart);
  }

  function build() {
    parts.stages = rollouts.map(makeStage);
    parts.probes = TONES.map((tone) => make("span", { className: `tone-${tone}`, hidden: true }));
    parts.curves = make("div", { className: "curves" }, ...series.map(makeSeries));
    const help = "Space plays and pauses, the arrow keys step; pull across a curve to go there.";
    const stages = make("div", { className: "stages" }, ...parts.stages.map(({ stage }) => stage));
    const controls = [makeControls(), makeScrub(), makeOptions(), make("p", { className: "help", text: help })];
    const left = make("div", { className: "player" }, stages, ...controls);
    section.append(make("div", { className: "film" }, left, parts.curves), ...parts.probes);
    section.classList.toggle("many", series.length > MANY);
    section.classList.toggle("several", rollouts.length > 1);
  }

  // Drawing

  /** A context in CSS pixels, cleared, and its size. */
  function prepared(canvas) {
    const [ratio, width, height] = [window.devicePixelRatio || 1, canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    return [context, width, height];
  }

  function drawShape(context, { kind, numbers }) {
    context.beginPath();
    if (kind === LINE) {
      const [x0, y0, x1, y1, width] = numbers;
      context.lineWidth = width;
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      context.stroke();
    } else if (kind === DISC) {
      context.arc(...numbers, 0, 2 * Math.PI);
      context.fill();
    } else {
      const [x, y, width, height] = numbers;
      context.roundRect(x - width / 2, y - height / 2, width, height, 0.12 * Math.min(width, height));
      context.fill();
    }
  }

  function drawScene({ canvas, reading, note }, rollout) {
    const t = Math.min(player.t, rollout.length - 1);
    note.hidden = !(rollout.hasEnded && player.t >= rollout.length - 1);
    const actions = row(rollout, "actions", t).map((action) => Fields.format(action));
    const shown = actions.slice(0, MOST_ACTIONS).join(", ") + (actions.length > MOST_ACTIONS ? ", …" : "");
    const numbers = [shown, Fields.format(rollout.rewards[t], rewardStep), Fields.format(rollout.returns[t], rewardStep)];
    reading.forEach((place, i) => (place.textContent = numbers[i]));
    if (rollout.frames === null) return;
    canvas.setAttribute("aria-label", `The state in step ${t}${rollouts.length > 1 ? ` of ${rollout.name}` : ""}`);
    const [context, width, height] = prepared(canvas);
    const [left, right, bottom, top] = rollout.view;
    const scale = Math.min(width / (right - left), height / (top - bottom));
    context.translate(width / 2, height / 2);
    context.scale(scale, -scale);
    context.translate(-(left + right) / 2, -(bottom + top) / 2);
    context.lineCap = "round";
    for (const shape of rollout.frames[t]) {
      context.fillStyle = context.strokeStyle = parts.colours[shape.tone];
      drawShape(context, shape);
    }
  }

  /** The curve of one rollout; a circle is left on one side and entered on the other. */
  function drawSeries(canvas, { low, high, turn, values }, rollout) {
    const [context, width, height] = prepared(canvas);
    const up = (value) => height - 3 - ((value - low) / (high - low)) * (height - 6);
    context.strokeStyle = getComputedStyle(canvas).color;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.beginPath();
    for (let t = 0, old = NaN; t < rollout.length; t++) {
      const value = values(rollout, t);
      const isNew = t === 0 || Math.abs(value - old) > turn / 2;
      context[isNew ? "moveTo" : "lineTo"]((t / Math.max(last, 1)) * width, up(value));
      old = value;
    }
    context.stroke();
  }

  function draw() {
    rollouts.forEach((rollout, i) => drawScene(parts.stages[i], rollout));
    parts.curves.style.setProperty("--at", player.t / Math.max(last, 1));
    for (const { numbers, values, low, high } of series)
      numbers.forEach((number, i) => (number.textContent = Fields.format(values(rollouts[i], player.t), (high - low) / 20)));
    parts.range.value = player.t;
    parts.range.setAttribute("aria-valuetext", `step ${player.t} of ${last}`);
    parts.step.textContent = `t = ${player.t}`;
    nameButton(parts.play, ...(player.isPlaying ? ["pause", "Pause"] : ["play", "Play"]));
  }

  /** Everything, in the colours and the size of now. */
  function drawAll() {
    parts.colours = Object.fromEntries(TONES.map((tone, i) => [tone, getComputedStyle(parts.probes[i]).color]));
    for (const one of series) one.canvases.forEach((canvas, i) => drawSeries(canvas, one, rollouts[i]));
    draw();
  }

  // Playing

  function mark() {
    if (parts.follow.checked) window.HamqPage?.mark(row(rollouts[Number(parts.whose.value)], "states", player.t));
  }

  function show(t) {
    player.t = Math.min(Math.max(t, 0), last);
    draw();
    mark();
  }

  /** To a step; what plays goes on from there. */
  function seek(t) {
    player.since = performance.now();
    show(t);
  }

  function toggle() {
    player.isPlaying = !player.isPlaying;
    if (!player.isPlaying) return draw();
    seek(player.t === last ? 0 : player.t);
    requestAnimationFrame(play);
  }

  function play(now) {
    if (!player.isPlaying) return;
    const due = Math.floor(((now - player.since) * Number(parts.speed.value)) / 1000);
    if (due > 0) {
      const t = player.t + due;
      player.since = now;
      player.isPlaying = t <= last || parts.loop.checked;
      show(t <= last || !parts.loop.checked ? t : 0);
    }
    requestAnimationFrame(play);
  }

  const KEYS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -Infinity, End: Infinity };

  /** Inside the section; what a button, a box or a list does with a key is left to it. */
  function listenToKeys(event) {
    const isOwn = event.target.matches("button, select, input[type=checkbox]") && event.key === " ";
    if (isOwn || event.target.matches("select") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " ") toggle();
    else if (event.key in KEYS) seek(player.t + KEYS[event.key]);
    else return;
    event.preventDefault();
  }

  function start() {
    build();
    drawAll();
    section.addEventListener("keydown", listenToKeys);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    new MutationObserver(drawAll).observe(document.documentElement, { attributeFilter: ["style"] });
    new ResizeObserver(drawAll).observe(section);
  }

  start();
})();
