"use strict";
/* Fields: functions on the box of a grid that the page can cut. Nothing here touches the document, so that the tests run
   this file in node.

   A field has `name`, `unit`, `isDiverging`, `axes` (those of the page, with its own number of points) and
   slice(xAxis, yAxis, fixed, xs, ys): its values at the points whose coordinates on the two axes are xs[i], ys[j] and whose
   others are those of `fixed`, a full state, as a Float32Array: values[j * xs.length + i]. With one axis, yAxis is -1 and
   ys = [0]. `isSmooth`: whether it varies between the nodes; otherwise every cell has the value of its node. `range`: the
   ends of its colours, where they are known. To show another kind of data, write such a class and name it in KINDS. */
const Fields = (() => {
  const READERS = { f4: ["getFloat32", 4, Float32Array], u2: ["getUint16", 2, Uint16Array], u1: ["getUint8", 1, Uint8Array] };

  /** Numbers from base64, little endian on every machine. */
  function decode(text, digits = "f4") {
    const letters = atob(text);
    const bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
    const [read, size, List] = READERS[digits];
    const view = new DataView(bytes.buffer);
    const numbers = new List(bytes.length / size);
    for (let i = 0; i < numbers.length; i++) numbers[i] = view[read](size * i, true);
    return numbers;
  }

  function cells(axis) {
    return axis.periodic ? axis.points : axis.points - 1;
  }

  /** Where a coordinate is, counted in nodes: within [0, cells], circles wrapped. */
  function position(axis, coordinate) {
    const count = cells(axis);
    const found = ((coordinate - axis.lower) / (axis.upper - axis.lower)) * count;
    return Math.min(Math.max(axis.periodic ? found - Math.floor(found / count) * count : found, 0), count);
  }

  /** Hat functions at a coordinate: [node below, node above, weight of the node above]. */
  function locate(axis, coordinate) {
    const found = position(axis, coordinate);
    const below = Math.min(Math.floor(found), cells(axis) - 1);
    return [below, (below + 1) % axis.points, found - below];
  }

  /** The nearest node. */
  function nearest(axis, coordinate) {
    return Math.round(position(axis, coordinate)) % axis.points;
  }

  /** Between two numbers; a neighbour without weight does not count, be it no number. */
  function mix(low, high, weight) {
    return weight === 0 ? low : weight === 1 ? high : (1 - weight) * low + weight * high;
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
        const low = mix(table[x0 * strideX + y0 * strideY], table[x1 * strideX + y0 * strideY], u);
        const high = mix(table[x0 * strideX + y1 * strideY], table[x1 * strideX + y1 * strideY], u);
        values[j * xs.length + i] = mix(low, high, v);
      });
    });
    return values;
  }

  /** A tensor train: f(s) = G_1(s_order[0]) · … · G_d(s_order[d-1]), each core linear between its nodes. */
  class Train {
    constructor(layer, axes) {
      const { name, note, unit, isDiverging, order } = layer;
      Object.assign(this, { name, note, unit, isDiverging, axes, order, isSmooth: true, range: null, floor: null });
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
      if (yAxis < 0) return interpolate(this.cores[0].data, this.axes[0], 1, FLAT, 0, xs, ys);
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

  const FLAT = { lower: 0, upper: 1, points: 2, periodic: false }; // the second axis where there is one only
  const NO_NUMBER = 65535; // the 16-bit code of what is not known

  /** One number per node, last axis fastest; with levels, which is a policy, it is never interpolated. */
  class Table {
    constructor(layer, axes) {
      const { name, note, unit, isDiverging, floor, levels } = layer;
      Object.assign(this, { name, note, unit, isDiverging, floor, axes, isStep: Boolean(levels), isSmooth: false });
      const numbers = decode(layer.values, layer.digits);
      if (levels) this.values = Float32Array.from(numbers, (i) => levels[i]);
      else if (layer.digits === "u2") {
        const value = (code) => (code === NO_NUMBER ? NaN : layer.offset + layer.scale * code);
        this.values = Float32Array.from(numbers, value);
      } else this.values = numbers;
      this.range = levels ? colourRange(levels, isDiverging) : null;
      this.strides = axes.map((_, i) => axes.slice(i + 1).reduce((product, axis) => product * axis.points, 1));
    }

    slice(xAxis, yAxis, fixed, xs, ys) {
      const { axes, values, strides } = this;
      const [axisX, axisY] = [axes[xAxis], axes[yAxis] ?? FLAT];
      const [strideX, strideY] = [strides[xAxis], strides[yAxis] ?? 0];
      const corners = this.corners(xAxis, yAxis, fixed);
      if (!this.isSmooth) {
        const [across, up] = [Array.from(xs, (x) => nearest(axisX, x)), Array.from(ys, (y) => nearest(axisY, y))];
        const at = (i, j) => values[corners[0][0] + across[i] * strideX + up[j] * strideY];
        return Float32Array.from({ length: xs.length * ys.length }, (_, k) => at(k % xs.length, Math.floor(k / xs.length)));
      }
      const table = new Float64Array(axisX.points * axisY.points);
      for (let i = 0; i < axisX.points; i++)
        for (let j = 0; j < axisY.points; j++)
          for (const [start, weight] of corners)
            table[i * axisY.points + j] += weight * values[start + i * strideX + j * strideY];
      return interpolate(table, axisX, axisY.points, axisY, 1, xs, ys);
    }

    /** [start in the table, weight] of the nodes around `fixed` on the axes that are not shown; smooth ones have several. */
    corners(xAxis, yAxis, fixed) {
      let found = [[0, 1]];
      this.axes.forEach((axis, i) => {
        if (i === xAxis || i === yAxis) return;
        const [below, above, weight] = this.isSmooth ? locate(axis, fixed[i]) : [nearest(axis, fixed[i]), 0, 0];
        const nodes = [[below, 1 - weight], [above, weight]].filter(([, share]) => share > 0);
        found = found.flatMap(([start, share]) =>
          nodes.map(([node, part]) => [start + node * this.strides[i], share * part]));
      });
      return found;
    }
  }

  const KINDS = { train: Train, table: Table };

  /** The field of a layer; its run may have other numbers of points than the page's first. */
  function makeField(layer, axes) {
    return new KINDS[layer.kind](layer, axes.map((axis, i) => ({ ...axis, points: layer.points[i] })));
  }

  /** The first field minus the second, on the axes of the first. */
  class Difference {
    constructor(first, second) {
      const { name, unit, axes } = first;
      Object.assign(this, { name, unit, axes, first, second, note: "", isDiverging: true, range: null, floor: null });
    }

    get isSmooth() {
      return this.first.isSmooth || this.second.isSmooth;
    }

    slice(...given) {
      const [first, second] = [this.first.slice(...given), this.second.slice(...given)];
      return first.map((value, i) => value - second[i]);
    }
  }

  /** Ends and middles of the parts of an axis in which the fields are sampled: `count` equal ones, or their cells. */
  function sampling(fields, i, axis, count) {
    if (i < 0) return { edges: [0, 1], centres: [0] };
    const width = axis.upper - axis.lower;
    if (fields.some(({ isSmooth }) => isSmooth)) {
      const edges = Array.from({ length: count + 1 }, (_, k) => axis.lower + (k / count) * width);
      return { edges, centres: Array.from(pixelCentres(axis, count)) };
    }
    const counts = [...new Set(fields.map(({ axes }) => cells(axes[i])))];
    const parts = counts.flatMap((number) => Array.from({ length: number }, (_, k) => (k + 0.5) / number));
    const sorted = [0, ...parts.sort((a, b) => a - b), 1].filter((part, k, all) => k === 0 || part - all[k - 1] > 1e-9);
    const edges = sorted.map((part) => axis.lower + part * width);
    return { edges, centres: edges.slice(1).map((edge, k) => (edge + edges[k]) / 2) };
  }

  /** The middles of `count` equal parts of an axis. */
  function pixelCentres(axis, count) {
    return Float64Array.from({ length: count }, (_, i) => axis.lower + ((i + 0.5) / count) * (axis.upper - axis.lower));
  }

  /** [lowest, highest] of what is a number; [NaN, NaN] where nothing is. */
  function extremes(values) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return low <= high ? [low, high] : [NaN, NaN];
  }

  /** [lowest, highest] for colours: around 0 for diverging fields, from `floor` on if there is one, never empty. */
  function colourRange(values, isDiverging, floor = null) {
    let [low, high] = extremes(values);
    if (Number.isNaN(low)) [low, high] = [0, 0];
    if (isDiverging) {
      high = Math.max(Math.abs(low), Math.abs(high));
      low = -high;
    } else if (floor !== null) [low, high] = [floor, Math.max(high, floor)];
    const least = 1e-6 * Math.max(Math.abs(low), Math.abs(high)) || 1e-30;
    if (high - low > least) return [low, high];
    return floor === null ? [low - least, high + least] : [low, low + least];
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
    if (Number.isNaN(value)) return "not known";
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

  return { decode, locate, makeField, Difference, sampling, pixelCentres, extremes, colourRange, ticks, format, contour };
})();

if (typeof module !== "undefined") module.exports = Fields;
