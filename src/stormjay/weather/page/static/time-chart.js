// A chart over time on uPlot: lines with their band of extremes, areas, bars. Gaps stay gaps. Its table twin stands
// beside it in the page and needs no script.

/** @type {Map<string, Promise<object>>} */
const questions = new Map();

/** All charts of a page share one question. */
function ask(url) {
  if (!questions.has(url)) {
    const answer = fetch(url, { headers: { accept: "application/json" } }).then((response) => {
      if (!response.ok) throw new Error(`status ${response.status}`);
      return response.json();
    });
    questions.set(url, answer);
    answer.finally(() => setTimeout(() => questions.delete(url), 0)).catch(() => {});
  }
  return questions.get(url);
}

const COLOURS = ["--series-1", "--series-2"];
const HEIGHT_PX = 190;

class TimeChart extends HTMLElement {
  connectedCallback() {
    this.setAttribute("role", "img");
    this.setAttribute("aria-label", this.dataset.label);
    this.names = this.dataset.fields.split(",");
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(this);
    document.addEventListener("stormjay-theme", this);
    this.refresh();
  }

  disconnectedCallback() {
    this.resize.disconnect();
    document.removeEventListener("stormjay-theme", this);
    this.chart?.destroy();
    this.chart = undefined;
  }

  handleEvent() {
    if (this.series) this.draw();
  }

  async refresh() {
    try {
      this.series = await ask(this.dataset.src);
    } catch {
      this.say("The chart could not be loaded; the table below is complete.");
      return;
    }
    if (this.isConnected) this.draw();
  }

  say(words) {
    this.chart?.destroy();
    this.chart = undefined;
    const line = document.createElement("p");
    line.className = "hint";
    line.textContent = words;
    this.replaceChildren(line);
  }

  fit() {
    const width = Math.floor(this.clientWidth);
    if (this.chart && width > 0 && width !== this.chart.width) this.chart.setSize({ width, height: HEIGHT_PX });
  }

  draw() {
    if (typeof uPlot === "undefined") {
      this.say("The chart library is not installed (make vendor); the table below is complete.");
      return;
    }
    if (!this.series.t.length || this.names.every((name) => this.series.fields[name].mean.every((v) => v === null))) {
      this.say("Nothing was measured in this span.");
      return;
    }
    this.classList.toggle("several", this.names.length > 1);
    const { data, series, bands } = this.shape();
    this.chart?.destroy();
    this.replaceChildren();
    this.chart = new uPlot(this.options(series, bands), data, this);
  }

  /** Columns for uPlot, and how to draw each. */
  shape() {
    if (this.dataset.kind === "bars") return this.bars();
    const area = this.dataset.kind === "area";
    const data = [this.series.t];
    const series = [{ value: (_, t) => (t === null ? "" : this.moment(t)) }];
    const bands = [];
    // The first name is the one that counts: it is drawn last, over the others.
    [...this.names.entries()].reverse().forEach(([place, name]) => {
      const field = this.series.fields[name];
      const colour = this.colour(COLOURS[place % COLOURS.length]);
      const value = (_, v) => (v === null || v === undefined ? "–" : `${v.toFixed(1)} ${this.dataset.unit}`);
      // A gust is a highest: of a bucket the highest counts, not the mean of the highest.
      const values = name.includes("gust") && field.max.length ? field.max : field.mean;
      data.push(values);
      series.push({
        label: field.label,
        stroke: colour,
        width: place ? 1 : 1.75,
        fill: area ? this.colour("--series-fill") : undefined,
        points: { show: false },
        value,
      });
      if (place === 0 && this.names.length === 1 && field.max.length) {
        const band = { stroke: "transparent", points: { show: false }, label: "", value: () => "" };
        data.push(field.max, field.min);
        series.push({ ...band, label: "highest", value }, { ...band, label: "lowest", value });
        bands.push({ series: [data.length - 2, data.length - 1], fill: this.colour("--series-fill") });
      }
    });
    return { data, series, bands };
  }

  /** Amounts per hour, quarter day or day of the station's own clock. */
  bars() {
    const field = this.series.fields[this.names[0]];
    const [from, to] = [this.series.from_utc, this.series.to_utc].map((text) => Date.parse(text) / 1000);
    const hours = to - from <= 2 * 86_400 ? 1 : to - from <= 10 * 86_400 ? 6 : 24;
    const sums = new Map();
    this.series.t.forEach((t, place) => {
      const amount = field.sum[place];
      if (amount === null) return;
      // A reading stands for the time before its moment; a bucket begins at its own.
      const clock = uPlot.tzDate(new Date((this.series.bucket_seconds ? t : t - 1) * 1000), this.dataset.zone);
      const past = (clock.getHours() % hours) * 3600 + clock.getMinutes() * 60 + clock.getSeconds();
      const begin = Math.floor((this.series.bucket_seconds ? t : t - 1) - past);
      sums.set(begin, (sums.get(begin) ?? 0) + amount);
    });
    const moments = [...sums.keys()].sort((a, b) => a - b);
    const share = (hours * 3600) / (to - from);
    const colour = this.colour(COLOURS[0]);
    const bar = {
      label: hours === 1 ? "in this hour" : hours === 24 ? "on this day" : "in these six hours",
      stroke: colour,
      fill: colour,
      width: 0,
      points: { show: false },
      // As wide as the time that it stands for, also when its neighbours are missing.
      paths: uPlot.paths.bars({ align: 1, size: [0.82, Math.max(2, share * (this.clientWidth - 60) * 0.82)] }),
      value: (_, v) => (v === null || v === undefined ? "–" : `${v.toFixed(1)} ${this.dataset.unit}`),
    };
    const time = { value: (_, t) => (t === null ? "" : this.moment(t)) };
    return { data: [moments, moments.map((t) => sums.get(t))], series: [time, bar], bands: [] };
  }

  options(series, bands) {
    const line = this.colour("--line");
    const axis = {
      stroke: this.colour("--muted"),
      grid: { stroke: line, width: 1 },
      ticks: { show: false },
      font: `11px ${getComputedStyle(this).fontFamily}`,
    };
    const [from, to] = [this.series.from_utc, this.series.to_utc].map((text) => Date.parse(text) / 1000);
    return {
      padding: [10, 10, 0, 0],
      width: Math.max(120, Math.floor(this.clientWidth)),
      height: HEIGHT_PX,
      series,
      bands,
      tzDate: (t) => uPlot.tzDate(new Date(t * 1000), this.dataset.zone),
      scales: { x: { range: [from, to] }, y: { range: (_, low, high) => this.range(low, high) } },
      axes: [
        { ...axis, size: 30, space: 60, values: (_, moments) => moments.map((t) => this.tick(t, to - from)) },
        { ...axis, size: 44, space: 26 },
      ],
      legend: { live: true },
      hooks: { setCursor: [(chart) => this.classList.toggle("pointing", chart.cursor.left >= 0)] },
      cursor: { sync: { key: "weather" }, points: { size: 6 }, drag: { x: true, y: false } },
    };
  }

  range(low, high) {
    if (low === null || high === null) return [0, 1];
    if (this.dataset.kind !== "line" || this.dataset.unit === "m/s") return [0, Math.max(high * 1.1, 1)];
    const room = Math.max((high - low) * 0.1, 0.5);
    const bounds = [low - room, high + room];
    return this.dataset.unit === "%" ? [Math.max(0, bounds[0]), Math.min(100, bounds[1])] : bounds;
  }

  tick(t, span) {
    const date = new Date(t * 1000);
    const zone = { timeZone: this.dataset.zone };
    const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", ...zone }).format(date);
    if (span <= 2 * 86_400 && time !== "00:00") return time;
    return new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", ...zone }).format(date);
  }

  moment(t) {
    const form = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: this.dataset.zone };
    return new Intl.DateTimeFormat("en-GB", form).format(new Date(t * 1000));
  }

  colour(name) {
    return getComputedStyle(this).getPropertyValue(name).trim();
  }
}

customElements.define("time-chart", TimeChart);
