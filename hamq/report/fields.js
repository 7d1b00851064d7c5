"use strict";
/* Fields: functions on the box of a grid that the page can cut. Nothing here touches the document, so that the tests run
   this file in node.

   A field has `name`, `unit`, `isDiverging` and slice(xAxis, yAxis, fixed, xs, ys): its values at the points whose
   coordinates on the two axes are xs[i], ys[j] and whose others are those of `fixed`, a full state, as a Float32Array:
   values[j * xs.length + i]. To show another kind of data, write such a class and name it in KINDS. */
const Fields = (() => {
  /** float32 numbers from base64, little endian on every machine. */
  function decode(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
  }

  /** Hat functions at a coordinate: [node below, node above, weight of the node above]. */
  function locate(axis, coordinate) {
    const cells = axis.periodic ? axis.points : axis.points - 1;
    let position = ((coordinate - axis.lower) / (axis.upper - axis.lower)) * cells;
    if (axis.periodic) position -= Math.floor(position / cells) * cells;
    position = Math.min(Math.max(position, 0), cells);
    const below = Math.min(Math.floor(position), cells - 1);
    return [below, (below + 1) % axis.points, position - below];
  }

  /** a [m, r] times b [r, n], in float64. */
  function multiply(a, b, m, r, n) {
    const product = new Float64Array(m * n);
    for (let i = 0; i < m; i++)
      for (let k = 0; k < r; k++) {
        const factor = a[i * r + k];
        for (let j = 0; j < n; j++) product[i * n + j] += factor * b[k * n + j];
      }
    return product;
  }

  /** A core [left, points, right] between two of its nodes: the matrix [left, right] at a coordinate. */
  function coreAt(core, axis, coordinate) {
    const { data, left, points, right } = core;
    const [below, above, weight] = locate(axis, coordinate);
    const matrix = new Float64Array(left * right);
    for (let a = 0; a < left; a++)
      for (let b = 0; b < right; b++) {
        const low = data[(a * points + below) * right + b];
        const high = data[(a * points + above) * right + b];
        matrix[a * right + b] = (1 - weight) * low + weight * high;
      }
    return matrix;
  }

  /** Bilinear interpolation of table[i * strideX + j * strideY] at all (xs, ys). */
  function interpolate(table, axisX, strideX, axisY, strideY, xs, ys) {
    const across = Array.from(xs, (x) => locate(axisX, x));
    const values = new Float32Array(xs.length * ys.length);
    ys.forEach((y, j) => {
      const [y0, y1, v] = locate(axisY, y);
      across.forEach(([x0, x1, u], i) => {
        const low = (1 - u) * table[x0 * strideX + y0 * strideY] + u * table[x1 * strideX + y0 * strideY];
        const high = (1 - u) * table[x0 * strideX + y1 * strideY] + u * table[x1 * strideX + y1 * strideY];
        values[j * xs.length + i] = (1 - v) * low + v * high;
      });
    });
    return values;
  }

  /** A tensor train: f(s) = G_1(s_order[0]) · … · G_d(s_order[d-1]), each core linear between its nodes. */
  class Train {
    constructor(layer, axes) {
      Object.assign(this, { name: layer.name, unit: layer.unit, isDiverging: layer.isDiverging, axes, order: layer.order });
      const data = decode(layer.cores);
      let start = 0;
      this.cores = layer.shapes.map(([left, points, right]) => {
        const end = start + left * points * right;
        const core = { data: data.subarray(start, end), left, points, right };
        start = end;
        return core;
      });
    }

    slice(xAxis, yAxis, fixed, xs, ys) {
      const [table, isTransposed] = this.nodeTable(xAxis, yAxis, fixed);
      const [axisX, axisY] = [this.axes[xAxis], this.axes[yAxis]];
      const [strideX, strideY] = isTransposed ? [1, axisX.points] : [axisY.points, 1];
      return interpolate(table, axisX, strideX, axisY, strideY, xs, ys);
    }

    /** The slice at the nodes of the two axes, the one that comes first in the train first; whether that is yAxis.
        The train is contracted from both ends, so that no matrix grows beyond [points, rank]. */
    nodeTable(xAxis, yAxis, fixed) {
      const { cores, order, axes } = this;
      const places = [order.indexOf(xAxis), order.indexOf(yAxis)];
      const [first, second] = places[0] < places[1] ? places : [places[1], places[0]];
      const matrix = (k) => coreAt(cores[k], axes[order[k]], fixed[order[k]]);
      let rows = Float64Array.of(1);
      for (let k = 0; k < first; k++) rows = multiply(rows, matrix(k), 1, cores[k].left, cores[k].right);
      rows = multiply(rows, cores[first].data, 1, cores[first].left, cores[first].points * cores[first].right);
      for (let k = first + 1; k < second; k++)
        rows = multiply(rows, matrix(k), cores[first].points, cores[k].left, cores[k].right);
      let end = Float64Array.of(1);
      for (let k = cores.length - 1; k > second; k--) end = multiply(matrix(k), end, cores[k].left, cores[k].right, 1);
      const { data, left, points, right } = cores[second];
      end = multiply(data, end, left * points, right, 1);
      return [multiply(rows, end, cores[first].points, left, points), places[0] > places[1]];
    }
  }

  const KINDS = { train: Train };

  function makeField(layer, axes) {
    return new KINDS[layer.kind](layer, axes);
  }

  /** The middles of `count` equal parts of an axis. */
  function pixelCentres(axis, count) {
    return Float64Array.from({ length: count }, (_, i) => axis.lower + ((i + 0.5) / count) * (axis.upper - axis.lower));
  }

  /** [lowest, highest] for colours: around 0 for diverging fields, never empty. */
  function colourRange(values, isDiverging) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (isDiverging) {
      high = Math.max(Math.abs(low), Math.abs(high));
      low = -high;
    }
    const least = 1e-6 * Math.max(Math.abs(low), Math.abs(high)) || 1e-30;
    return high - low > least ? [low, high] : [low - least, high + least];
  }

  /** About `count` round numbers within [low, high]. */
  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
    return found;
  }

  /** A number in few digits, with a true minus; `step` is what neighbouring numbers differ by, if they must differ. */
  function format(value, step = 0) {
    let digits = 4;
    if (step > 0 && value !== 0) {
      if (Math.abs(value) < step / 1e3) return "0";
      digits = Math.min(Math.max(1 + Math.floor(Math.log10(Math.abs(value) / step) + 2), 2), 12);
    }
    const size = Math.abs(value);
    const isPlain = size === 0 || (size >= 1e-3 && size < 1e5);
    const [mantissa, power] = isPlain ? [value.toPrecision(digits)] : value.toExponential(digits - 1).split("e");
    const short = String(Number(mantissa));
    return (power === undefined ? short : `${short}e${Number(power)}`).replaceAll("-", "−");
  }

  const CORNERS = [[0, 0], [1, 0], [1, 1], [0, 1]];

  /** Points (x, y, x, y, …), in pairs, where the contour enters and leaves a square with these heights above it. */
  function crossings(heights) {
    const found = [];
    for (let k = 0; k < 4; k++) {
      const [low, high] = [heights[k], heights[(k + 1) % 4]];
      if (low < 0 === high < 0) continue;
      const [[x0, y0], [x1, y1]] = [CORNERS[k], CORNERS[(k + 1) % 4]];
      const t = low / (low - high);
      found.push(x0 + t * (x1 - x0), y0 + t * (y1 - y0));
    }
    return found;
  }

  /** Line segments [x0, y0, x1, y1] of the contour at a level, in units of samples of values[height, width]. */
  function contour(values, width, height, level) {
    const segments = [];
    for (let j = 0; j + 1 < height; j++)
      for (let i = 0; i + 1 < width; i++) {
        const [low, high] = [j * width + i, (j + 1) * width + i];
        const isAbove = values[low] >= level;
        const isFlat = [low + 1, high, high + 1].every((k) => values[k] >= level === isAbove);
        if (isFlat) continue;
        const found = crossings([low, low + 1, high + 1, high].map((k) => values[k] - level));
        for (let k = 0; k < found.length; k += 4)
          segments.push([i + found[k], j + found[k + 1], i + found[k + 2], j + found[k + 3]]);
      }
    return segments;
  }

  return { decode, locate, makeField, pixelCentres, colourRange, ticks, format, contour };
})();

if (typeof module !== "undefined") module.exports = Fields;
