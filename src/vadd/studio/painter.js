// A picture to paint on, pixel by pixel. The value is {height, width, channels, levels, cells}: the levels of the pixels
// row by row and channel by channel, -1 where the model is to fill in.
const canvas = element.querySelector("canvas");
const paper = canvas.getContext("2d");
let cursor = null;
let painting = false;

function level() {
  const brush = element.querySelector("input:checked").value;
  return brush === "forget" ? -1 : brush === "light" ? props.value.levels - 1 : 0;
}

function draw() {
  if (!props.value) return;
  const { height, width, channels, levels, cells } = props.value;
  const size = Math.max(1, Math.floor(320 / Math.max(height, width)));
  canvas.width = width * size;
  canvas.height = height * size;
  for (let place = 0; place < height * width; place++) {
    const found = Array.from({ length: channels }, (_, channel) => cells[place * channels + channel]);
    const shown = found.map((cell) => Math.round((cell * 255) / (levels - 1)));
    const [red, green, blue] = channels === 3 ? shown : [shown[0], shown[0], shown[0]];
    paper.fillStyle = found.includes(-1) ? "rgb(118 128 148)" : `rgb(${red} ${green} ${blue})`;
    paper.fillRect((place % width) * size, Math.floor(place / width) * size, size, size);
  }
  if (cursor !== null) {
    paper.strokeStyle = "#e8590c";
    paper.lineWidth = 2;
    paper.strokeRect((cursor % width) * size + 1, Math.floor(cursor / width) * size + 1, size - 2, size - 2);
  }
}

function paint(place) {
  const { channels, cells } = props.value;
  const painted = Array.from(cells);
  painted.fill(level(), place * channels, (place + 1) * channels);
  props.value = { ...props.value, cells: painted };
  draw();
}

function place_of(event) {
  if (!props.value) return null;
  const frame = canvas.getBoundingClientRect();
  const column = Math.floor(((event.clientX - frame.left) / frame.width) * props.value.width);
  const row = Math.floor(((event.clientY - frame.top) / frame.height) * props.value.height);
  const inside = column >= 0 && row >= 0 && column < props.value.width && row < props.value.height;
  return inside ? row * props.value.width + column : null;
}

canvas.addEventListener("pointerdown", (event) => {
  painting = true;
  canvas.setPointerCapture(event.pointerId);
  const place = place_of(event);
  if (place !== null) paint(place);
});
canvas.addEventListener("pointermove", (event) => {
  const place = painting ? place_of(event) : null;
  if (place !== null) paint(place);
});
canvas.addEventListener("pointerup", () => (painting = false));
canvas.addEventListener("pointercancel", () => (painting = false));
canvas.addEventListener("keydown", (event) => {
  if (!props.value) return;
  const { height, width } = props.value;
  const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width };
  if (event.key in moves) {
    const next = (cursor ?? 0) + moves[event.key];
    cursor = cursor === null ? 0 : next >= 0 && next < height * width ? next : cursor;
    draw();
    event.preventDefault();
  } else if (event.key === " " && cursor !== null) {
    paint(cursor);
    event.preventDefault();
  }
});
watch("value", draw);
draw();
