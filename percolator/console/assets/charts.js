// The charts: uPlot over the points that the server has sent. A point is [milliseconds, value of every series…].

const span = 60 * 60; // seconds that are kept
const drawn = new Map(); // chart's id → {plot, place, series}
let points = [];

export function addPoints(more, whole) {
  points = whole && points.length === 0 ? more : points.concat(more.filter((p) => points.length === 0 || p[0] > points.at(-1)[0]));
  const oldest = points.length ? points.at(-1)[0] - span * 1000 : 0;
  points = points.filter((p) => p[0] >= oldest);
  for (const chart of drawn.values()) chart.plot.setData(dataOf(chart.series));
}

// drawCharts draws what is not drawn yet, and forgets what has left the page.
export function drawCharts(root) {
  for (const [id, chart] of drawn) {
    if (!chart.place.isConnected) { chart.plot.destroy(); drawn.delete(id); }
  }
  for (const figure of root.querySelectorAll("[data-chart]")) {
    if (!drawn.has(figure.dataset.chart)) draw(figure);
  }
}

// recolour draws everything anew, in the colours of now.
export function recolour() {
  for (const chart of drawn.values()) chart.plot.destroy();
  drawn.clear();
  drawCharts(document);
}

function dataOf(series) {
  return [points.map((p) => p[0] / 1000), ...series.map((s) => points.map((p) => p[s + 1]))];
}

function draw(figure) {
  const place = figure.querySelector(".plot");
  const swatches = [...figure.querySelectorAll(".swatch")];
  const series = swatches.map((s) => Number(s.dataset.series));
  const ink = getComputedStyle(place).color;
  const faint = getComputedStyle(place).borderTopColor;
  const write = units[figure.dataset.unit] ?? units.count;
  const font = "11px " + getComputedStyle(document.body).fontFamily;
  const plot = new uPlot({
    width: place.clientWidth, height: place.clientHeight, padding: [8, 26, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: true, y: false } },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { stroke: ink, font, grid: { show: false }, ticks: { show: false }, size: 22, space: 64, values: (_, at) => at.map(clock) },
      { stroke: ink, font, grid: { stroke: faint, width: 1 }, ticks: { show: false }, size: 52, space: 32, values: (_, at) => at.map(write) },
    ],
    series: [{}, ...swatches.map((s, i) => {
      const colour = getComputedStyle(s).color;
      return {
        stroke: colour, width: 1.5, spanGaps: false, points: { show: false },
        fill: i === 0 ? colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)") : undefined,
      };
    })],
    plugins: [tooltip(place, swatches, write)],
  }, dataOf(series), place);
  drawn.set(figure.dataset.chart, { plot, place, series });
  resizes.observe(place);
}

const resizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    for (const { plot, place } of drawn.values()) {
      if (place === target && place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height: place.clientHeight });
    }
  }
});

// tooltip shows the values under the pointer.
function tooltip(place, swatches, write) {
  const box = document.createElement("div");
  box.className = "tip";
  box.hidden = true;
  return {
    hooks: {
      init: (u) => u.over.append(box),
      setCursor: (u) => {
        const at = u.cursor.idx;
        box.hidden = at == null;
        if (at == null) return;
        const rows = swatches.map((s, i) => [s, u.data[i + 1][at]]);
        box.replaceChildren(line("when", clock(u.data[0][at])), ...rows.map(([s, v]) => {
          const row = line("", `${s.parentElement.textContent.trim()} `);
          const swatch = s.cloneNode(false);
          const number = document.createElement("b");
          number.textContent = v == null ? "–" : (units[s.dataset.unit] ?? write)(v);
          row.prepend(swatch);
          row.append(number);
          return row;
        }));
        const left = u.cursor.left;
        box.style.left = `${left > u.over.clientWidth / 2 ? left - box.offsetWidth - 10 : left + 10}px`;
      },
    },
  };
}

function line(name, text) {
  const el = document.createElement("div");
  el.className = name;
  el.textContent = text;
  return el;
}

function clock(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

const digits = (v) => v === 0 ? "0" : v < 10 ? String(Number(v.toFixed(v < 0.1 ? 3 : v < 1 ? 2 : 1))) : v < 1000 ? v.toFixed(0) : v < 1e6 ? `${Number((v / 1e3).toFixed(1))}k` : `${Number((v / 1e6).toFixed(1))}M`;

const units = {
  count: digits,
  rate: (v) => (v === 0 ? "0" : `${digits(v)}/s`),
  time: (s) => {
    if (s === 0) return "0";
    if (s < 0.001) return `${digits(s * 1e6)} µs`;
    if (s < 1) return `${digits(s * 1e3)} ms`;
    if (s < 120) return `${digits(s)} s`;
    return s < 7200 ? `${digits(s / 60)} min` : `${digits(s / 3600)} h`;
  },
};
