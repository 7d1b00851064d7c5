"use strict";
/* One map of the page with its title, its bar of colours, its ring and its reading. Whatever is written into the document
   goes through textContent. */
const Panels = (() => {
  function make(tag, className, text = "") {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    return made;
  }

  function withUnit(number, field) {
    return field.unit ? `${number} ${field.unit}` : number;
  }

  class Panel {
    /** `ids`: the first panel's parts have names that others can look for. */
    constructor(hasIds) {
      this.root = make("figure", "panel");
      this.name = make("strong", "");
      this.extremes = make("span", "extremes");
      this.bar = make("canvas", "bar");
      this.map = make("canvas", "map");
      this.marker = make("span", "marker");
      this.value = make("output", "value");
      this.where = make("span", "where");
      const title = make("figcaption", "bar-title");
      title.append(this.name, this.extremes);
      const box = make("div", "map-box");
      box.append(this.map, this.marker);
      const reading = make("p", "reading");
      reading.append(this.value, " ", this.where);
      this.root.append(title, this.bar, box, reading);
      const hidden = [this.bar, this.marker];
      for (const part of hidden) part.setAttribute("aria-hidden", "true");
      this.map.tabIndex = 0;
      this.map.setAttribute("role", "img");
      this.map.setAttribute("aria-describedby", "map-help");
      const named = { "layer-name": this.name, extremes: this.extremes, bar: this.bar, map: this.map, marker: this.marker };
      if (hasIds) for (const [id, part] of Object.entries({ ...named, value: this.value, where: this.where })) part.id = id;
    }

    /** `title` says whose map it is. A slice whose `y.axis` is missing is a line. */
    draw(slice, range, title, hasContours) {
      const { field, x, y, values } = slice;
      Object.assign(this, { slice, range });
      const isLine = !y.axis;
      this.bar.hidden = isLine;
      if (isLine) Drawing.drawLine(this.map, slice, range);
      else {
        Drawing.drawMap(this.map, slice, range, hasContours);
        Drawing.drawBar(this.bar, field, range);
      }
      const note = field.note ? ` (${field.note})` : "";
      this.name.textContent = (title || field.name) + note + (field.unit ? ` [${field.unit}]` : "");
      const [low, high] = Fields.extremes(values).map((value) => Fields.format(value));
      this.extremes.textContent = `this slice: min ${low}, max ${high}`;
      const over = isLine ? x.axis.name : `${x.axis.name} and ${y.axis.name}`;
      const kind = isLine ? "Line" : "Heat map";
      this.map.setAttribute("aria-label", `${kind}: ${title || field.name} over ${over}, from ${low} to ${high}`);
    }

    valueAt(point) {
      const { field, x, y } = this.slice;
      const [value] = field.slice(x.index, y.index, point, [point[x.index]], y.axis ? [point[y.index]] : [0]);
      return value;
    }

    read(point, where) {
      this.value.textContent = withUnit(Fields.format(this.valueAt(point)), this.slice.field);
      this.where.textContent = where;
    }

    placeMarker(point) {
      const { field, x, y } = this.slice;
      const frame = Drawing.frameOf(this.map);
      const height = y.axis ? point[y.index] : this.valueAt(point);
      const up = y.axis ?? Drawing.heightAxis(field, this.range);
      this.marker.style.left = `${frame.left + Drawing.share(x.axis, point[x.index]) * frame.width}px`;
      this.marker.style.top = `${frame.top + (1 - Drawing.share(up, height)) * frame.height}px`;
    }

    /** [part across, part up] of the box under the pointer, or null outside it. */
    partsAt(event) {
      const [frame, canvas] = [Drawing.frameOf(this.map), this.map.getBoundingClientRect()];
      const across = (event.clientX - canvas.left - frame.left) / frame.width;
      const up = 1 - (event.clientY - canvas.top - frame.top) / frame.height;
      return Math.min(across, up) < 0 || Math.max(across, up) > 1 ? null : [across, up];
    }
  }

  return { Panel, make };
})();
