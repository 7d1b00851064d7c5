"use strict";
/* Pictures of one slice on a canvas: a heat map with its axes, the bar of its colours, a line where there is one axis only.

   A slice is { field, x, y, values }: `x` and `y` are { axis, edges, centres }, and values[j * x.centres.length + i] is
   that of the part between edges i and i + 1 across, j and j + 1 up. */
const Drawing = (() => {
  const SHADES = 1024; // of a colour table; with 256 one sees bands where a field is flat
  const MARGIN = { left: 58, right: 14, top: 8, bottom: 46 };
  const VALUES =
    "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 fde725";
  const DIVERGING = "123a78 2463ad 5e97cf a3c6e6 d8e6f2 f7f6f4 f6ddd0 eeb297 da7458 b93632 7a1226";
  const UNKNOWN = "rgba(128, 128, 128, 0.25)";

  /** SHADES colours as [r, g, b], linear between the given ones. */
  function colourTable(stops) {
    const colours = stops.split(" ").map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    return Array.from({ length: SHADES }, (_, i) => {
      const position = (i / (SHADES - 1)) * (colours.length - 1);
      const below = Math.min(Math.floor(position), colours.length - 2);
      return colours[below].map((low, c) => Math.round(low + (position - below) * (colours[below + 1][c] - low)));
    });
  }
  const TABLES = { values: colourTable(VALUES), diverging: colourTable(DIVERGING) };

  function coloursOf(field) {
    return field.isDiverging ? TABLES.diverging : TABLES.values;
  }

  function colour(value, [low, high], table) {
    const part = Math.min(Math.max((value - low) / (high - low), 0), 1);
    return table[Math.round((SHADES - 1) * part)];
  }

  /** A picture of values[height, width], first row at the bottom; what is no number stays open. */
  function picture(values, width, height, range, table) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    values.forEach((value, i) => {
      if (Number.isNaN(value)) return;
      const [x, y] = [i % width, height - 1 - Math.floor(i / width)];
      const at = 4 * (y * width + x);
      image.data.set(colour(value, range, table), at);
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

  /** Where the map is within its canvas. */
  function frameOf({ clientWidth, clientHeight }) {
    const [width, height] = [clientWidth - MARGIN.left - MARGIN.right, clientHeight - MARGIN.top - MARGIN.bottom];
    return { left: MARGIN.left, top: MARGIN.top, width, height };
  }

  function share(axis, coordinate) {
    return (coordinate - axis.lower) / (axis.upper - axis.lower);
  }

  function drawAxes(context, frame, axisX, axisY) {
    const mark = (axis, count, place) => {
      const found = Fields.ticks(axis.lower, axis.upper, count);
      for (const tick of found) place(tick, Fields.format(tick, found[1] - found[0]));
    };
    context.textAlign = "center";
    mark(axisX, Math.max(frame.width / 80, 3), (tick, text) => {
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

  function drawContours(context, frame, { x, y, values }, [low, high]) {
    const [width, height] = [x.centres.length, y.centres.length];
    const [dx, dy, bottom] = [frame.width / width, frame.height / height, frame.top + frame.height];
    context.save();
    context.strokeStyle = "rgba(0, 0, 0, 0.35)";
    context.lineWidth = 0.8;
    context.beginPath();
    for (const level of Fields.ticks(low, high, 9))
      for (const [x0, y0, x1, y1] of Fields.contour(values, width, height, level)) {
        context.moveTo(frame.left + (x0 + 0.5) * dx, bottom - (y0 + 0.5) * dy);
        context.lineTo(frame.left + (x1 + 0.5) * dx, bottom - (y1 + 0.5) * dy);
      }
    context.stroke();
    context.restore();
  }

  /** Every part in its own colour, with sharp edges on whole pixels of the screen. */
  function drawCells(context, frame, { field, x, y, values }, range) {
    const ratio = window.devicePixelRatio || 1;
    const whole = (length) => Math.round(length * ratio) / ratio;
    const across = x.edges.map((edge) => whole(frame.left + share(x.axis, edge) * frame.width));
    const up = y.edges.map((edge) => whole(frame.top + (1 - share(y.axis, edge)) * frame.height));
    values.forEach((value, k) => {
      if (Number.isNaN(value)) return;
      const [i, j] = [k % x.centres.length, Math.floor(k / x.centres.length)];
      context.fillStyle = `rgb(${colour(value, range, coloursOf(field)).join(" ")})`;
      context.fillRect(across[i], up[j + 1], across[i + 1] - across[i], up[j] - up[j + 1]);
    });
  }

  function drawMap(canvas, slice, range, hasContours) {
    const [context] = prepared(canvas);
    const [frame, ink] = [frameOf(canvas), context.fillStyle];
    const { field, x, y, values } = slice;
    context.fillStyle = UNKNOWN;
    context.fillRect(frame.left, frame.top, frame.width, frame.height);
    if (field.isSmooth) {
      const image = picture(values, x.centres.length, y.centres.length, range, coloursOf(field));
      context.drawImage(image, frame.left, frame.top, frame.width, frame.height);
      if (hasContours) drawContours(context, frame, slice, range);
    } else drawCells(context, frame, slice, range);
    context.fillStyle = ink;
    drawAxes(context, frame, x.axis, y.axis);
  }

  /** The values of a slice with one axis as an axis of their own. */
  function heightAxis(field, [low, high]) {
    const margin = 0.06 * (high - low);
    return { name: field.unit ? `${field.name} [${field.unit}]` : field.name, lower: low - margin, upper: high + margin };
  }

  /** A line over the one axis; steps where the field is constant in its cells. */
  function drawLine(canvas, { field, x, values }, range) {
    const [context] = prepared(canvas);
    const [frame, ink, up] = [frameOf(canvas), context.fillStyle, heightAxis(field, range)];
    const right = (coordinate) => frame.left + share(x.axis, coordinate) * frame.width;
    const top = (value) => frame.top + (1 - share(up, value)) * frame.height;
    context.strokeStyle = UNKNOWN;
    context.strokeRect(frame.left, frame.top, frame.width, frame.height);
    context.strokeStyle = getComputedStyle(canvas).getPropertyValue("accent-color");
    context.lineWidth = 2;
    context.beginPath();
    values.forEach((value, i) => {
      if (Number.isNaN(value)) return;
      const isNew = i === 0 || Number.isNaN(values[i - 1]);
      const places = field.isSmooth ? [x.centres[i]] : [x.edges[i], x.edges[i + 1]];
      places.forEach((place, k) => (isNew && k === 0 ? context.moveTo : context.lineTo).call(context, right(place), top(value)));
    });
    context.stroke();
    context.fillStyle = ink;
    drawAxes(context, frame, x.axis, up);
  }

  function drawBar(canvas, field, [low, high]) {
    const [context, width] = prepared(canvas);
    const [left, length] = [MARGIN.left, width - MARGIN.left - MARGIN.right];
    const shades = Float32Array.from({ length: SHADES }, (_, i) => i);
    context.drawImage(picture(shades, SHADES, 1, [0, SHADES - 1], coloursOf(field)), left, 0, length, 12);
    context.textAlign = "center";
    const found = Fields.ticks(low, high, Math.max(length / 75, 3));
    for (const tick of found) {
      const x = left + ((tick - low) / (high - low)) * length;
      context.fillRect(x - 0.5, 12, 1, 4);
      context.fillText(Fields.format(tick, found[1] - found[0]), x, 29);
    }
  }

  return { frameOf, share, heightAxis, drawMap, drawLine, drawBar };
})();
