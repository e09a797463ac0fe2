// Line charts over time, drawn by uPlot from the page's history address and fed by live points.
// A point is [seconds since 1970, value, …]; whole numbers come as text. A missing stretch is drawn as a gap.
import { timeText, zone } from "./times.js";

const GAP_FACTOR = 6;
const SECONDS_MIN = 60;
const NARROW_PIXELS = 480;
const TIME_STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

export function startCharts() {
  return [...document.querySelectorAll("[data-chart]")].map((element) => new Chart(element));
}

class Chart {
  constructor(element) {
    this.element = element;
    this.series = JSON.parse(element.dataset.series);
    this.seconds = Number(element.dataset.seconds);
    this.legend = document.querySelector(`[data-legend-of="${element.id}"]`);
    this.rows = [];
    this.plot = null;
    new ResizeObserver(() => this.resize()).observe(element);
    document.addEventListener("hermes:theme", () => this.build());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
    this.refetch();
    // A chart without live points is read anew from time to time.
    const every = Number(element.dataset.refetchS ?? 0);
    if (every) setInterval(() => document.hidden || this.refetch(), every * 1000);
  }

  async refetch() {
    try {
      const answer = await fetch(this.element.dataset.history, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const later = this.rows.filter((row) => row.isLive);
      this.rows = [];
      for (const point of (await answer.json()).points) this.push(point, false);
      for (const row of later) if (!this.rows.length || row.at > this.rows.at(-1).at) this.rows.push(row);
      this.build();
    } catch (error) {
      const wait = this.element.querySelector(".chart-wait");
      if (wait) wait.textContent = `The history could not be loaded (${error.message}).`;
    }
  }

  add(point) {
    if (this.rows.length && point[0] <= this.rows.at(-1).at) return;
    this.push(point, true);
    const oldest = point[0] - this.seconds;
    while (this.rows.length && this.rows[0].at < oldest) this.rows.shift();
    if (this.plot) {
      this.plot.setData(this.columns());
      this.showLegend();
    }
  }

  push(point, isLive) {
    const values = point.slice(1).map((value) => (value === null ? null : Number(value)));
    this.rows.push({ at: point[0], values, isLive });
  }

  columns() {
    const times = [];
    const columns = this.series.map(() => []);
    const step = this.usualStep();
    let before = null;
    for (const row of this.rows) {
      if (before !== null && row.at - before > step * GAP_FACTOR) {
        times.push(before + step);
        for (const column of columns) column.push(null);
      }
      times.push(row.at);
      columns.forEach((column, index) => column.push(row.values[index] ?? null));
      before = row.at;
    }
    return [times, ...columns];
  }

  usualStep() {
    const steps = [];
    for (let i = 1; i < this.rows.length; i++) steps.push(this.rows[i].at - this.rows[i - 1].at);
    steps.sort((a, b) => a - b);
    return steps[Math.floor(steps.length / 2)] || 1;
  }

  build() {
    this.plot?.destroy();
    this.element.replaceChildren();
    this.plot = new uPlot(this.options(), this.columns(), this.element);
    this.showLegend();
  }

  resize() {
    if (this.plot && this.element.clientWidth) this.plot.setSize(this.size());
  }

  size() {
    const style = getComputedStyle(this.element);
    const width = this.element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return { width: Math.max(200, width), height: this.element.clientHeight };
  }

  options() {
    const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis = {
      stroke: color("--text-soft"),
      font: `11px ${color("--font")}`,
      grid: { stroke: color("--grid"), width: 1 },
      ticks: { show: false },
      gap: 6,
    };
    const hasRight = this.series.some((one) => one.axis === "right");
    const axes = [
      { ...axis, size: 30, space: timeSpace, incrs: TIME_STEPS, values: (_, splits) => timeTexts(splits) },
      { ...axis, size: 62, space: 36, values: (_, splits) => splits.map(compact) },
    ];
    if (hasRight) {
      axes.push({ ...axis, side: 1, scale: "right", size: 54, space: 36, grid: { show: false }, values: (_, splits) => splits.map((value) => `${compact(value)} s`) });
    }
    return {
      ...this.size(),
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), zone === "UTC" ? "Etc/UTC" : zone),
      legend: { show: false },
      padding: [12, hasRight ? 4 : 16, 0, 0],
      cursor: { points: { size: 7, width: 2 }, drag: { setScale: false }, y: false },
      scales: { x: { range: () => this.timeRange() }, y: { range: fromZero }, right: { range: fromZero } },
      axes,
      series: [
        {},
        ...this.series.map((one, index) => ({
          label: one.label,
          scale: one.axis === "right" ? "right" : "y",
          stroke: color(`--chart-${index + 1}`),
          width: 1.5,
          dash: index === 0 ? undefined : [5, 3],
          fill: index === 0 ? color("--chart-1-fill") : undefined,
          points: { show: false },
        })),
      ],
      hooks: { setCursor: [() => this.showLegend()] },
    };
  }

  timeRange() {
    const end = this.rows.at(-1)?.at ?? Math.floor(Date.now() / 1000);
    const first = this.rows[0]?.at ?? end;
    return [Math.max(end - this.seconds, Math.min(first, end - SECONDS_MIN)), end];
  }

  showLegend() {
    if (!this.legend) return;
    const index = this.plot?.cursor.idx ?? null;
    const data = this.plot?.data;
    const shown = index === null ? (data?.[0].length ?? 0) - 1 : index;
    const items = this.series.map((one, i) => {
      const item = document.createElement("li");
      const value = data?.[i + 1]?.[shown];
      const strong = document.createElement("strong");
      strong.textContent = value === null || value === undefined ? "unknown" : `${fine(value)}${one.unit}`;
      item.append(`${one.label} `, strong);
      return item;
    });
    if (index !== null) {
      const time = document.createElement("li");
      time.className = "legend-time";
      time.textContent = `at ${timeText(new Date(data[0][index] * 1000), "full")}`;
      items.push(time);
    }
    this.legend.replaceChildren(...items);
  }
}

function timeSpace(_plot, _axis, _min, _max, pixels) {
  return pixels < NARROW_PIXELS ? 56 : 80;
}

function timeTexts(splits) {
  const step = splits.length > 1 ? splits[1] - splits[0] : 60;
  const texts = splits.map((at) => timeText(new Date(at * 1000), "full"));
  if (step >= 86400) return texts.map((text) => text.slice(5, 10));
  return texts.map((text) => (step < 60 ? text.slice(11, 19) : text.slice(11, 16)));
}

function fromZero(_plot, _min, max) {
  return [0, max > 0 ? max * 1.1 : 1];
}

function compact(value) {
  if (value === null) return "";
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim(value / 1e9)} G`;
  if (size >= 1e6) return `${trim(value / 1e6)} M`;
  if (size >= 1e4) return `${trim(value / 1e3)} k`;
  return fine(value);
}

function fine(value) {
  const size = Math.abs(value);
  return value.toLocaleString("en", { maximumFractionDigits: size < 1 ? 3 : size < 10 ? 2 : 1 });
}

function trim(value) {
  return value.toFixed(1).replace(/\.0$/, "");
}
