// A map to drag over: the value is {x, y, picture}, x and y between -1 and 1, the picture what lies below.
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
  if (!props.value || !props.value.picture) return;
  const picture = new Image();
  picture.onload = () => {
    below = picture;
    draw();
  };
  picture.src = props.value.picture;
}

function move(x, y) {
  const inside = (number) => Math.min(1, Math.max(-1, number));
  props.value = { ...props.value, x: inside(x), y: inside(y) };
  draw();
  trigger("input");
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
watch("value", () => {
  fetch_picture();
  draw();
});
fetch_picture();
draw();
