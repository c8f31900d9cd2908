// A map to drag over: the value is {x, y, span, picture}, x and y between -1 and 1, the picture what lies below. Where
// one is on the map, the first two sliders say: dragging moves them.
const canvas = element.querySelector("canvas");
const paper = canvas.getContext("2d");
let below = null;
let dragging = false;

function draw() {
  if (!props.value) return;
  const { x, y } = props.value;
  canvas.width = canvas.height = 320;
  paper.imageSmoothingEnabled = false;
  if (below) paper.drawImage(below, 0, 0, 320, 320);
  paper.strokeStyle = "#e8590c";
  paper.lineWidth = 3;
  paper.beginPath();
  paper.arc((x + 1) * 160, (1 - y) * 160, 8, 0, 2 * Math.PI);
  paper.stroke();
}

function fetch_picture() {
  if (!props.value) return;
  if (!props.value.picture) {
    below = null; // not that of another run
    return;
  }
  const picture = new Image();
  const wanted = props.value.picture;
  picture.onload = () => {
    if (props.value.picture !== wanted) return; // meanwhile another run was chosen
    below = picture;
    draw();
  };
  picture.src = props.value.picture;
}

function slider(number) {
  return document.querySelector(`#latent-slider-${number} input[type=range]`);
}

function move(...place) {
  place.forEach((where, axis) => {
    if (!slider(axis)) return;
    slider(axis).value = Math.min(1, Math.max(-1, where)) * props.value.span;
    slider(axis).dispatchEvent(new Event("input", { bubbles: true }));
  });
}

function follow(event) {
  const frame = canvas.getBoundingClientRect();
  move(((event.clientX - frame.left) / frame.width) * 2 - 1, 1 - ((event.clientY - frame.top) / frame.height) * 2);
}

canvas.addEventListener("pointerdown", (event) => {
  dragging = true;
  canvas.setPointerCapture(event.pointerId);
  follow(event);
});
canvas.addEventListener("pointermove", (event) => dragging && follow(event));
canvas.addEventListener("pointerup", () => (dragging = false));
canvas.addEventListener("pointercancel", () => (dragging = false));
canvas.addEventListener("keydown", (event) => {
  const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
  if (event.key in moves) {
    const [right, up] = moves[event.key];
    move(props.value.x + right, props.value.y + up);
    event.preventDefault();
  }
});
document.addEventListener("input", (event) => {
  if (!element.isConnected || !props.value || !event.target.closest("#latent-sliders")) return;
  const [x, y] = [0, 1].map((axis) => (slider(axis) ? Number(slider(axis).value) / props.value.span : 0));
  props.value = { ...props.value, x, y };
  draw();
});
watch("value", () => {
  fetch_picture();
  draw();
});
fetch_picture();
draw();
