"use strict";
// Pans, zooms and asks for pixel values. Coordinates: columns and rows of the image; `scale` is pixels of the screen for
// one of the image.

const canvas = document.getElementById("map");
const context = canvas.getContext("2d");
const show = (id, text) => { document.getElementById(id).textContent = text; };

let info = null;
let view = { x: 0, y: 0, scale: 1 };   // what is in the middle of the screen
let cursor = null;                     // where the pointer is on the screen
const tiles = new Map();               // "zoom/x/y" -> Image, the last used ones last
const KEPT = 400;
const SCALES = { least: 1 / 2, most: 64 };

function tile(zoom, x, y) {
  const key = `${zoom}/${x}/${y}`;
  let picture = tiles.get(key);
  if (picture) {
    tiles.delete(key);
  } else {
    picture = new Image();
    picture.onload = redraw;
    picture.src = `tile/${key}.png`;
  }
  tiles.set(key, picture);
  if (tiles.size > KEPT) tiles.delete(tiles.keys().next().value);
  return picture;
}

const loaded = (picture) => picture.complete && picture.naturalWidth > 0;

// Draws the tiles of one zoom that are in sight; those that are not there yet leave what is under them.
function drawZoom(zoom, ask) {
  const side = info.tile * 2 ** zoom;
  const [left, top] = toImage(0, 0), [right, bottom] = toImage(canvas.width, canvas.height);
  const last = (size) => Math.ceil(size / side) - 1;
  for (let y = Math.max(0, Math.floor(top / side)); y <= Math.min(last(info.height), Math.floor(bottom / side)); y++) {
    for (let x = Math.max(0, Math.floor(left / side)); x <= Math.min(last(info.width), Math.floor(right / side)); x++) {
      const picture = ask ? tile(zoom, x, y) : tiles.get(`${zoom}/${x}/${y}`);
      if (!picture || !loaded(picture)) continue;
      const [a, b] = toScreen(x * side, y * side);
      const [c, d] = toScreen(Math.min(info.width, (x + 1) * side), Math.min(info.height, (y + 1) * side));
      // Whole pixels, or seams would show.
      const [px, py] = [Math.round(a), Math.round(b)];
      context.drawImage(picture, px, py, Math.round(c) - px, Math.round(d) - py);
    }
  }
}

const toImage = (sx, sy) => [view.x + (sx - canvas.width / 2) / view.scale, view.y + (sy - canvas.height / 2) / view.scale];
const toScreen = (x, y) => [(x - view.x) * view.scale + canvas.width / 2, (y - view.y) * view.scale + canvas.height / 2];

const zoomNow = () => Math.min(info.last_zoom, Math.max(0, Math.floor(Math.log2(1 / view.scale) + 0.01)));

let drawing = false;
function redraw() {
  if (drawing || !info) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.imageSmoothingEnabled = view.scale < 1;
    const zoom = zoomNow();
    for (let coarse = info.last_zoom; coarse > zoom; coarse--) drawZoom(coarse, coarse === info.last_zoom);
    drawZoom(zoom, true);
    show("zoom", view.scale >= 1 ? `${round(view.scale)} : 1` : `1 : ${round(1 / view.scale)}`);
    const waiting = [...tiles.values()].some((picture) => !picture.complete);
    document.body.dataset.state = waiting ? "waiting" : "ready";
  });
}

const round = (number) => Number(number.toPrecision(3));

function clampView() {
  const fit = Math.min(canvas.width / info.width, canvas.height / info.height);
  view.scale = Math.min(SCALES.most, Math.max(Math.min(1, fit) * SCALES.least, view.scale));
  view.x = Math.min(info.width, Math.max(0, view.x));
  view.y = Math.min(info.height, Math.max(0, view.y));
}

function zoomBy(factor, sx = canvas.width / 2, sy = canvas.height / 2) {
  const [x, y] = toImage(sx, sy);
  view.scale *= factor;
  clampView();
  // What was under the pointer stays under it.
  view.x = x - (sx - canvas.width / 2) / view.scale;
  view.y = y - (sy - canvas.height / 2) / view.scale;
  clampView();
  redraw();
  point();
}

function showAll() {
  view = { x: info.width / 2, y: info.height / 2, scale: Math.min(canvas.width / info.width, canvas.height / info.height) };
  clampView();
  redraw();
}

// The value under the pointer: one question at a time, the last place wins.
let asking = false, wanted = null;
async function ask() {
  if (asking || !wanted) return;
  asking = true;
  const [x, y] = wanted;
  wanted = null;
  try {
    const answer = await fetch(`value.json?x=${x}&y=${y}`);
    const { values, valid } = await answer.json();
    const text = info.bands > 1 ? values.map((value, i) => `${i + 1}: ${value}`).join("   ") : values[0];
    show("value", valid ? text : `${text} (no data)`);
    document.getElementById("value").dataset.at = `${x},${y}`;
  } catch {
    show("value", "can't be read");
  }
  asking = false;
  ask();
}

function point() {
  if (!cursor || !info) return;
  const [fx, fy] = toImage(...cursor);
  const [x, y] = [Math.floor(fx), Math.floor(fy)];
  if (x < 0 || y < 0 || x >= info.width || y >= info.height) {
    ["pixel", "place", "value"].forEach((id) => show(id, ""));
    return;
  }
  show("pixel", `column ${x}, row ${y}`);
  if (info.transform) {
    const [a, b, c, d, e, f] = info.transform;
    const digits = Math.abs(a) + Math.abs(b) < 0.01 ? 7 : 2;
    show("place", `${(a * fx + b * fy + c).toFixed(digits)}, ${(d * fx + e * fy + f).toFixed(digits)}`);
  }
  wanted = [x, y];
  ask();
}

function legend() {
  const box = document.getElementById("legend");
  const add = (tag, text, parent = box) => {
    const element = parent.appendChild(document.createElement(tag));
    if (text) element.textContent = text;
    return element;
  };
  const { kind, bands, colours, entries } = info.legend;
  if (kind === "ramp") {
    const names = bands.length === 3 ? ["red", "green", "blue"] : [""];
    bands.forEach(({ band, low, high }, i) => {
      add("div", bands.length === 3 ? `${names[i]}: band ${band}` : `band ${band}`);
      if (bands.length === 1) {
        const bar = add("canvas");
        [bar.width, bar.height] = [180, 12];
        const paint = bar.getContext("2d");
        const gradient = paint.createLinearGradient(0, 0, 180, 0);
        colours.forEach((colour, i) => gradient.addColorStop(i / (colours.length - 1), colour));
        paint.fillStyle = gradient;
        paint.fillRect(0, 0, 180, 12);
      }
      const ends = add("div");
      ends.className = "ends";
      add("span", String(round(low)), ends);
      add("span", String(round(high)), ends);
    });
  } else if (kind === "palette") {
    entries.forEach(([value, colour]) => {
      const entry = add("div");
      entry.className = "entry";
      const swatch = add("canvas", "", entry);
      swatch.className = "swatch";
      [swatch.width, swatch.height] = [16, 12];
      const paint = swatch.getContext("2d");
      paint.fillStyle = colour;
      paint.fillRect(0, 0, 16, 12);
      add("span", String(value), entry);
    });
  } else {
    add("div", kind === "colours" ? "as the file has them" : "inks of a print");
  }
}

function resize() {
  [canvas.width, canvas.height] = [canvas.clientWidth, canvas.clientHeight];
  redraw();
}

let dragged = null;
canvas.addEventListener("pointerdown", (event) => {
  dragged = [event.clientX, event.clientY];
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointerup", () => { dragged = null; });
canvas.addEventListener("pointermove", (event) => {
  if (!info) return;
  cursor = [event.clientX, event.clientY];
  if (dragged) {
    view.x -= (event.clientX - dragged[0]) / view.scale;
    view.y -= (event.clientY - dragged[1]) / view.scale;
    dragged = cursor;
    clampView();
    redraw();
  }
  point();
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (info) zoomBy(2 ** (-Math.sign(event.deltaY) / 2), event.clientX, event.clientY);
}, { passive: false });
canvas.addEventListener("dblclick", (event) => { if (info) zoomBy(2, event.clientX, event.clientY); });
addEventListener("keydown", (event) => {
  if (!info) return;
  const step = 80 / view.scale;
  const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
  if (moves[event.key]) {
    view.x += moves[event.key][0];
    view.y += moves[event.key][1];
    clampView();
    redraw();
  } else if (event.key === "+" || event.key === "=") zoomBy(2);
  else if (event.key === "-") zoomBy(0.5);
  else if (event.key === "0") showAll();
});
document.getElementById("in").addEventListener("click", () => info && zoomBy(2));
document.getElementById("out").addEventListener("click", () => info && zoomBy(0.5));
document.getElementById("all").addEventListener("click", () => info && showAll());
addEventListener("resize", resize);

fetch("info.json").then((answer) => answer.json()).then((facts) => {
  info = facts;
  document.title = `${info.name} - tiffjet`;
  show("name", info.name);
  const crs = info.crs ? `, ${info.crs}${info.epsg ? ` (EPSG:${info.epsg})` : ""}` : "";
  show("facts", `${info.width} × ${info.height}, ${info.bands} × ${info.dtype}, ${info.compression}, ${info.levels.length} levels${crs}`);
  legend();
  resize();
  showAll();
});
