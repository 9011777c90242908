"use strict";
// Everything that comes from a model is put in as text (textContent), never as markup.
(() => {
  const ROWS_AT_FIRST = 200;
  const ROWS_MORE = 1000;
  const SMALL = 8; // rows that are seen at once need no filters
  const data = JSON.parse(document.getElementById("data").textContent);

  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const later = (work) => {
    let waiting = 0;
    return () => {
      clearTimeout(waiting);
      waiting = setTimeout(work, 120);
    };
  };

  // Written as Python writes them: whole numbers in full, others with four digits; those with a
  // bar all with as many decimals.
  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const written = (value, decimals) => {
    if (value === null || typeof value === "string") return value ?? "";
    if (decimals !== undefined) return decimals.format(value);
    if (Number.isInteger(value) || Math.abs(value) >= 1000) return whole.format(value);
    const short = Number(value.toPrecision(4));
    return Math.abs(short) < 1e-3 ? short.toExponential() : String(short);
  };

  const BAR = 80; // width of a bar in a table
  const MOST_NODES = 2000; // that are drawn one by one; beyond, blocks of them
  const WIDE = 200;
  const HIGH = 62;
  const svgElement = (tag, attributes = {}, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

  // Rows of repeated operators as blocks of one period, or of equal size where nothing repeats.
  const blocksOf = (rows, operator) => {
    if (rows.length <= MOST_NODES) return rows.map((row) => [row]);
    const names = rows.map(operator);
    let size = Math.ceil(rows.length / 500);
    for (let period = 8; period <= Math.min(1000, rows.length / 4); period += 1) {
      let alike = 0;
      for (let at = period; at < names.length; at += 1) alike += names[at] === names[at - period];
      if (alike > 0.9 * (names.length - period)) {
        size = period * Math.ceil(size / period);
        break;
      }
    }
    const blocks = [];
    for (let at = 0; at < rows.length; at += size) blocks.push(rows.slice(at, at + size));
    return blocks;
  };

  // Layers by longest path (rows are in running order), each sorted by where its sources are.
  const placed = (blocks, links) => {
    const home = new Map(blocks.flatMap((rows, at) => rows.map((row) => [row, at])));
    const sources = blocks.map((rows, at) => [...new Set(rows.flatMap((row) => links[row])
      .map((row) => home.get(row)).filter((one) => one !== undefined && one < at))]);
    const layers = [];
    const layerOf = [];
    sources.forEach((before, at) => {
      layerOf[at] = before.reduce((most, one) => Math.max(most, layerOf[one] + 1), 0);
      (layers[layerOf[at]] ??= []).push(at);
    });
    const x = [];
    for (const layer of layers) {
      const wanted = (at) => sources[at].reduce((sum, one) => sum + x[one], 0)
        / (sources[at].length || 1);
      layer.sort((a, b) => wanted(a) - wanted(b) || a - b);
      layer.forEach((at, place) => { x[at] = (place - (layer.length - 1) / 2) * WIDE; });
    }
    const left = x.reduce((least, one) => Math.min(least, one), 0) - WIDE / 2;
    return { sources, x: x.map((one) => one - left), y: layerOf.map((one) => one * HIGH + 8) };
  };

  class Column {
    constructor(name, cells, most) {
      this.name = name;
      this.most = most;
      if (most && cells.some((cell) => !Number.isInteger(cell ?? 0))) {
        const digits = Math.max(0, 4 - Math.floor(Math.log10(Math.abs(most))));
        this.decimals = new Intl.NumberFormat("en-US",
          { minimumFractionDigits: digits, maximumFractionDigits: digits });
      }
      this.isText = !Array.isArray(cells);
      this.cells = cells;
      if (this.isText) {
        this.places = cells.places;
        this.lower = cells.texts.map((text) => text.toLowerCase());
      }
    }
    get rank() {
      if (!this.ranks) {
        const { texts } = this.cells;
        const collator = new Intl.Collator("en", { numeric: true });
        this.ranks = [];
        texts.map((_, at) => at).sort((a, b) => collator.compare(texts[a], texts[b]))
          .forEach((at, rank) => { this.ranks[at] = rank; });
      }
      return this.ranks;
    }
    text(row) {
      return this.isText ? this.cells.texts[this.places[row]]
        : written(this.cells[row], this.decimals);
    }
    // What sorts: nothing and what is no number come last.
    key(row) {
      if (this.isText) return this.rank[this.places[row]];
      const cell = this.cells[row];
      return typeof cell === "number" ? cell : -Infinity;
    }
    // A test of rows: "> 5", "<5", "= 5" of numbers; else what the text contains.
    test(wanted) {
      const compared = /^(<=?|>=?|=)\s*(-?[\d.,]+(?:e-?\d+)?)$/i.exec(wanted);
      if (compared && !this.isText) {
        const number = Number(compared[2].replaceAll(",", ""));
        const holds = {
          "<": (x) => x < number, "<=": (x) => x <= number, "=": (x) => x === number,
          ">": (x) => x > number, ">=": (x) => x >= number,
        }[compared[1]];
        return (row) => typeof this.cells[row] === "number" && holds(this.cells[row]);
      }
      const word = wanted.toLowerCase();
      if (!this.isText) {
        const digits = word.replaceAll(",", "");
        return (row) => String(this.cells[row] ?? "").includes(digits);
      }
      const has = this.lower.map((text) => text.includes(word));
      return (row) => has[this.places[row]];
    }
  }

  class DataTable {
    constructor(section, facts) {
      this.section = section;
      this.title = facts.title;
      this.count = facts.count;
      this.marked = new Set(facts.marked);
      this.links = facts.links;
      this.here = -1;
      this.columns = facts.columns.map((name, at) => new Column(name, facts.cells[at], facts.bars[at]));
      this.filters = this.columns.map(() => "");
      this.search = "";
      this.only = null;
      this.sorted = { at: -1, down: false };
      this.shown = ROWS_AT_FIRST;
      this.body = section.querySelector("tbody");
      const rowOf = (event) => this.links.length && event.target.closest("tr[data-row]");
      const show = (event) => rowOf(event) && this.picture?.showRow(Number(rowOf(event).dataset.row));
      this.body.addEventListener("click", show);
      this.body.addEventListener("keydown", (event) => event.key === "Enter" && show(event));
      section.querySelector(".more")?.remove();
      this.small = this.count <= SMALL;
      this.addHead();
      this.addStatus();
      this.update();
    }
    addHead() {
      const head = this.section.querySelector("thead");
      this.heads = [...head.querySelectorAll("th")];
      const filters = make("tr", undefined, { class: "filters" });
      this.heads.forEach((th, at) => {
        const button = make("button", th.textContent, { type: "button" });
        button.addEventListener("click", () => this.sort(at));
        if (!this.small) th.replaceChildren(button);
        const input = make("input", undefined, {
          type: "text",
          "aria-label": `Filter ${this.columns[at].name}`,
          placeholder: this.columns[at].isText ? "contains" : "e.g. > 5",
        });
        input.addEventListener("input", later(() => {
          this.filters[at] = input.value.trim();
          this.update();
        }));
        const cell = make("th");
        cell.append(input);
        filters.append(cell);
      });
      if (!this.small) head.append(filters);
    }
    addStatus() {
      this.status = make("div", undefined, { class: "status" });
      this.said = make("span", "", { role: "status" });
      this.more = make("button", "", { type: "button" });
      this.more.addEventListener("click", () => {
        this.shown += ROWS_MORE;
        this.draw();
      });
      this.all = make("button", "Show all again", { type: "button" });
      this.all.addEventListener("click", () => this.keep(null));
      this.status.append(this.said, this.more, this.all);
      this.section.querySelector(".scroll").before(this.status);
    }
    sort(at) {
      const down = this.sorted.at === at ? !this.sorted.down : !this.columns[at].isText;
      this.sorted = { at, down };
      this.heads.forEach((th, place) => {
        if (place === at) th.setAttribute("aria-sort", down ? "descending" : "ascending");
        else th.removeAttribute("aria-sort");
      });
      this.update();
    }
    keep(key) {
      this.only = key;
      this.update();
    }
    find(word) {
      this.search = word;
      this.update();
    }
    text(name, row) {
      return this.columns.find((column) => column.name === name)?.text(row) ?? "";
    }
    // Show a row in the table and scroll to it.
    reveal(row) {
      this.here = row;
      if (!this.rows.includes(row)) this.keep(this.columns[0].text(row));
      this.shown = Math.max(this.shown, this.rows.indexOf(row) + 1);
      this.draw();
      const line = this.body.querySelector("tr.here");
      line?.scrollIntoView({ block: "center" });
      line?.focus({ preventScroll: true });
    }
    update() {
      const tests = [];
      this.filters.forEach((wanted, at) => {
        if (wanted) tests.push(this.columns[at].test(wanted));
      });
      if (this.search) {
        const any = this.columns.map((column) => column.test(this.search));
        tests.push((row) => any.some((holds) => holds(row)));
      }
      if (this.only !== null) tests.push((row) => this.columns[0].text(row) === this.only);
      this.rows = [];
      for (let row = 0; row < this.count; row += 1) {
        if (tests.every((holds) => holds(row))) this.rows.push(row);
      }
      if (this.sorted.at >= 0) {
        const column = this.columns[this.sorted.at];
        const sign = this.sorted.down ? -1 : 1;
        const keys = new Map(this.rows.map((row) => [row, column.key(row)]));
        this.rows.sort((a, b) => sign * (keys.get(a) - keys.get(b)) || a - b);
      }
      this.shown = ROWS_AT_FIRST;
      this.draw();
    }
    draw() {
      const rows = this.rows.slice(0, this.shown);
      const lines = document.createDocumentFragment();
      for (const row of rows) {
        const line = make("tr", undefined, { "data-row": row });
        if (this.links.length) line.tabIndex = 0;
        line.classList.toggle("marked", this.marked.has(row));
        line.classList.toggle("here", row === this.here);
        this.columns.forEach((column, at) => line.append(this.cell(column, at, row)));
        lines.append(line);
      }
      this.body.replaceChildren(lines);
      const of = this.rows.length === this.count ? "" : ` (of ${whole.format(this.count)})`;
      const only = this.only === null ? "" : `${this.only}: `;
      this.said.textContent = rows.length === this.rows.length
        ? `${only}${whole.format(rows.length)} ${rows.length === 1 ? "row" : "rows"}${of}`
        : `${only}the first ${whole.format(rows.length)} of ${whole.format(this.rows.length)} rows${of}`;
      const left = this.rows.length - rows.length;
      this.more.hidden = left === 0;
      this.more.textContent = `Show ${whole.format(Math.min(left, ROWS_MORE))} more`;
      this.all.hidden = this.only === null;
      this.status.hidden = this.small && this.rows.length === this.count;
    }
    cell(column, at, row) {
      const cell = make("td", column.text(row));
      if (!column.isText) {
        cell.className = "number";
        const place = (one) => BAR * Math.max(0, one / Math.abs(column.most));
        const size = column.cells[row];
        if (column.most && typeof size === "number") {
          const x = place(size);
          const [low, high] = [1, 2].map((one) => place(this.columns[at + one]?.cells?.[row] ?? size));
          const d = column.most > 0 ? `M0 3H${x}V9H0z` : `M${place(1)} 0V12M${low} 3v6m0-3H${high}`
            + `m0-3v6M${x} 6m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0`;
          const bar = svgElement("svg", { class: column.most > 0 ? "bar" : "range",
            width: BAR, height: 12 });
          bar.append(svgElement("path", { d }));
          cell.prepend(bar, " ");
        }
      }
      return cell;
    }
  }

  class Picture {
    constructor(section, facts, tables) {
      this.boxes = facts.boxes;
      this.table = tables.find((table) => table.title === facts.opens);
      this.colours = facts.colours;
      this.views = [...section.querySelectorAll(".picture")];
      if (this.table?.links.length) {
        this.table.picture = this;
        this.inner = make("div", undefined, { class: "picture inner", hidden: "" });
        this.views.push(this.inner);
      }
      this.scale = 1;
      this.frame = make("div", undefined, { class: "frame" });
      this.views[0].before(this.frame);
      this.detail = make("div", undefined, { class: "detail", "aria-live": "polite", hidden: "" });
      this.map = make("canvas", undefined, { class: "map", width: 140, height: 160,
        "aria-hidden": "true" });
      this.map.addEventListener("pointerdown", (event) => this.look(event));
      this.map.addEventListener("pointermove", (event) => event.buttons && this.look(event));
      this.frame.append(this.buttons(), ...this.views, this.map);
      this.frame.after(this.detail);
      this.views.forEach((view) => this.listen(view));
      this.go(0);
      if (this.boxes.length === 1 && this.inner) this.drawNodes(this.boxes[0][0]);
    }
    // Draw the nodes of a subgraph, or of a block of one.
    drawNodes(key, rows) {
      const { table } = this;
      const all = rows ?? Array.from({ length: table.count }, (_, row) => row)
        .filter((row) => table.columns[0].text(row) === key);
      this.blocks = blocksOf(all, (row) => table.text("operator", row));
      const { sources, x, y } = placed(this.blocks, table.links);
      const width = x.reduce((most, one) => Math.max(most, one), 0) + WIDE / 2;
      const height = y.reduce((most, one) => Math.max(most, one), 0) + HIGH;
      const svg = svgElement("svg", {
        width, height, viewBox: `0 0 ${width} ${height}`, "font-size": 11,
        "font-family": "system-ui, sans-serif", fill: "currentColor", role: "group",
        "aria-label": `Nodes of ${key}`,
      });
      sources.forEach((before, at) => before.forEach((one) => {
        const [top, bottom] = [y[one] + HIGH - 22, y[at]];
        const half = (top + bottom) / 2;
        svg.append(svgElement("path", {
          d: `M${x[one]} ${top}C${x[one]} ${half} ${x[at]} ${half} ${x[at]} ${bottom}`,
          fill: "none", stroke: "currentColor", "stroke-opacity": 0.45,
        }));
      }));
      this.blocks.forEach((block, at) => svg.append(this.node(block, at, x[at], y[at])));
      this.inner.replaceChildren(svg);
      this.inner.dataset.title = `${key}: ${whole.format(all.length)} nodes`;
      this.go(this.views.length - 1);
    }
    node(block, at, x, y) {
      const { table } = this;
      const text = (name) => table.text(name, block[0]);
      const [, time, unit] = table.columns.map((column) => [column.name,
        column.text(block[0]), column.name.split(", ")[1]]).find(([name]) => name.startsWith("time")) ?? [];
      const lines = block.length > 1
        ? [`${whole.format(block.length)} nodes`, `from ${text("operator")} #${text("number")}`]
        : [[text("operator"), time && `${time} ${unit}`].filter(Boolean).join("  "), text("makes")];
      const refused = block.some((row) => table.text("refused by", row));
      const group = svgElement("g", {
        class: "box node", tabindex: 0, role: "button", "data-block": at, "data-row": block[0],
      });
      const said = ["operator", "name", "reads", "makes", "refused by"].map(text).filter(Boolean);
      group.append(svgElement("title", {}, (block.length > 1 ? lines : said).join("\n")));
      group.append(svgElement("rect", {
        x: x - WIDE / 2 + 6, y, width: WIDE - 12, height: HIGH - 22, rx: 4, class: "edge",
        fill: this.colours[text("backend")] ?? "#bbbbbb", stroke: "currentColor",
        ...(refused ? { "stroke-dasharray": "4 3", "stroke-width": 2 } : {}),
      }));
      const times = table.columns.find((column) => column.name.startsWith("time"));
      const part = block.reduce((sum, row) => sum + (times?.cells[row] ?? 0), 0) / times?.most;
      if (part > 0) group.append(svgElement("rect", { x: x - WIDE / 2 + 6, y: y + HIGH - 28,
        width: (WIDE - 12) * Math.min(1, part), height: 6, fill: "#14181f", "fill-opacity": 0.55 }));
      lines.forEach((line, place) => group.append(svgElement("text", {
        x, y: y + 17 + 15 * place, "text-anchor": "middle", fill: "#14181f",
        "font-weight": place ? 400 : 600,
      }, cut(line, 30))));
      return group;
    }
    // Go from a row of the table to its node.
    showRow(row) {
      const key = this.table.columns[0].text(row);
      if (!this.blocks?.some((block) => block.includes(row))) this.drawNodes(key);
      const block = this.blocks.find((one) => one.includes(row));
      if (block.length > 1) this.drawNodes(key, block);
      this.go(this.views.length - 1);
      const box = this.inner.querySelector(`[data-row="${row}"]`);
      this.openNode(box);
      box.scrollIntoView({ block: "center", inline: "center" });
      box.focus({ preventScroll: true });
    }
    openNode(box) {
      const [row, { table }] = [Number(box.dataset.row), this];
      const button = make("button", "Row in the table", { type: "button" });
      button.addEventListener("click", () => table.reveal(row));
      const facts = table.columns.map((column) => [column.name, column.text(row)]);
      this.tell(box, `${table.text("operator", row)} #${table.text("number", row)}`, facts, button);
    }
    tell(box, title, facts, ...more) {
      this.frame.querySelectorAll(".box.open").forEach((one) => one.classList.remove("open"));
      box.classList.add("open");
      const list = make("dl");
      for (const [name, value] of facts) if (value) list.append(make("dt", name), make("dd", value));
      this.detail.replaceChildren(make("h3", title), list, ...more);
      this.detail.hidden = false;
    }
    buttons() {
      const bar = make("div", undefined, { class: "buttons" });
      const add = (text, label, act) => {
        const button = make("button", text, { type: "button", "aria-label": label, title: label });
        button.addEventListener("click", act);
        bar.append(button);
        return button;
      };
      add("\u2212", "Zoom out", () => this.zoom(this.scale / 1.3));
      add("+", "Zoom in", () => this.zoom(this.scale * 1.3));
      add("Fit", "Fit into the frame", () => this.fit());
      add("100 %", "Natural size", () => this.zoom(1));
      this.up = add("\u2190 Whole model", "Back to the picture of the whole", () => this.go(0));
      this.where = make("span", "", { class: "where", role: "status" });
      bar.append(this.where);
      return bar;
    }
    listen(view) {
      const boxOf = (event) => event.target.closest(".box[tabindex]");
      view.addEventListener("click", (event) => boxOf(event) && this.open(boxOf(event)));
      view.addEventListener("keydown", (event) => {
        if ((event.key === "Enter" || event.key === " ") && boxOf(event)) {
          event.preventDefault();
          this.open(boxOf(event));
        }
      });
      view.addEventListener("scroll", () => this.drawMap(), { passive: true });
      view.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.zoom(this.scale * (event.deltaY < 0 ? 1.15 : 1 / 1.15));
      }, { passive: false });
      let from = null;
      view.addEventListener("pointerdown", (event) => {
        if (event.pointerType !== "mouse" || boxOf(event)) return;
        from = [event.clientX + view.scrollLeft, event.clientY + view.scrollTop];
        view.classList.add("dragged");
      });
      window.addEventListener("pointermove", (event) => {
        if (from) view.scrollTo(from[0] - event.clientX, from[1] - event.clientY);
      });
      window.addEventListener("pointerup", () => {
        from = null;
        view.classList.remove("dragged");
      });
    }
    get view() {
      return this.views[this.at];
    }
    go(at) {
      this.at = at;
      this.views.forEach((view, place) => { view.hidden = place !== at; });
      this.up.hidden = at === 0;
      const { name, title } = this.view.dataset;
      this.where.textContent = at ? title ?? `boxes ${name}` : "";
      const natural = this.view.querySelector("svg").getAttribute("width");
      this.zoom(Math.max(0.45, Math.min(1, (this.view.clientWidth - 8) / natural)));
    }
    zoom(scale) {
      this.scale = Math.max(0.05, Math.min(6, scale));
      const svg = this.view.querySelector("svg");
      svg.style.width = `${svg.getAttribute("width") * this.scale}px`;
      svg.style.height = `${svg.getAttribute("height") * this.scale}px`;
      this.drawMap();
    }
    // All boxes as dots and the part that is seen, where that is less than half of the picture.
    drawMap() {
      const { view, map } = this;
      const svg = view.querySelector("svg");
      const [wide, high] = ["width", "height"].map((one) => Number(svg.getAttribute(one)));
      const boxes = svg.querySelectorAll("rect.edge");
      map.hidden = boxes.length < 24 || view.clientWidth < 600
        || view.clientWidth * view.clientHeight > 0.5 * wide * high * this.scale ** 2;
      if (map.hidden) return;
      const small = Math.min(map.width / wide, map.height / high);
      const ink = map.getContext("2d");
      ink.clearRect(0, 0, map.width, map.height);
      boxes.forEach((box) => {
        const [x, y, w, h] = ["x", "y", "width", "height"].map((one) => small * box.getAttribute(one));
        ink.fillStyle = box.parentNode.querySelector("rect:not([fill=none])").getAttribute("fill");
        ink.fillRect(x, y, Math.max(1, w), Math.max(1, h));
      });
      this.part = this.scale / small;
      ink.strokeStyle = getComputedStyle(map).color;
      ink.lineWidth = 1.5;
      ink.strokeRect(view.scrollLeft / this.part, view.scrollTop / this.part,
        Math.min(wide * small, view.clientWidth / this.part), view.clientHeight / this.part);
    }
    look(event) {
      const { view } = this;
      view.scrollTo(event.offsetX * this.part - view.clientWidth / 2,
        event.offsetY * this.part - view.clientHeight / 2);
    }
    fit() {
      const svg = this.view.querySelector("svg");
      const high = window.innerHeight * 0.66;
      const wide = this.view.clientWidth - 20;
      this.zoom(Math.min(wide / svg.getAttribute("width"), high / svg.getAttribute("height"), 2));
    }
    open(box) {
      if (box.dataset.view !== undefined) {
        this.go(Number(box.dataset.view));
        this.view.querySelector(".box[tabindex]")?.focus({ preventScroll: true });
        return;
      }
      if (box.dataset.block !== undefined) {
        const block = this.blocks[Number(box.dataset.block)];
        if (block.length > 1) this.drawNodes(this.table.columns[0].text(block[0]), block);
        else this.openNode(box);
        return;
      }
      const [key, facts] = this.boxes[Number(box.dataset.box)];
      const button = make("button", "Draw its nodes", { type: "button" });
      button.addEventListener("click", () => this.drawNodes(key));
      this.tell(box, key, facts, ...(this.inner ? [button] : []));
      this.table?.keep(key);
      this.detail.scrollIntoView({ block: "nearest" });
    }
    find(word) {
      const lower = word.toLowerCase();
      this.frame.querySelectorAll(".box[tabindex]").forEach((box) => {
        const found = word && box.querySelector("title").textContent.toLowerCase().includes(lower);
        box.classList.toggle("found", Boolean(found));
      });
    }
  }

  const sections = [...document.querySelectorAll("[data-section]")];
  const of = (kind) => sections.filter((section) => section.classList.contains(kind));
  const facts = (section) => data[Number(section.dataset.section)];
  const timelines = of("timeline");
  const tables = of("table").map((section) => new DataTable(section, facts(section)));
  const pictures = [...of("drawing"), ...timelines].map((section) => new Picture(section, facts(section), tables));

  const search = document.getElementById("search");
  search.addEventListener("input", later(() => {
    const word = search.value.trim();
    [...tables, ...pictures].forEach((one) => one.find(word));
  }));
  // Enter goes to the first node that has the word.
  search.addEventListener("keydown", (event) => {
    const table = event.key === "Enter" && tables.find((one) => one.picture && one.links.length);
    if (!table) return;
    table.only = null;
    table.find(search.value.trim());
    if (search.value && table.rows.length) table.picture.showRow(table.rows[0]);
  });
  if (!tables.length) search.hidden = true;

  const theme = document.getElementById("theme");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches);
  const name = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  name();
  document.getElementById("tools").hidden = false;
})();
