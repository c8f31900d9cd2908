// What the sliders say, as fast as they are moved: one request at a time, always with where they stand by then. The
// value is {shown, run, example, steps, temperature}, or HTML where something went wrong.
const place = element.querySelector(".live");
let asking = false;
let moved = false;

function show(html) {
  place.innerHTML = html;
}

async function ask() {
  moved = true;
  if (asking) return;
  asking = true;
  while (moved) {
    moved = false;
    const begun = props.value;
    const sliders = document.querySelectorAll("#latent-sliders input[type=range]");
    const values = Array.from(sliders, (slider) => Number(slider.value));
    const wish = { run: begun.run, example: begun.example, steps: begun.steps, temperature: begun.temperature, values };
    try {
      const body = JSON.stringify(wish);
      const answer = await fetch("live/latent", { method: "POST", headers: { "Content-Type": "application/json" }, body });
      const html = await answer.text();
      if (props.value === begun) show(html);
    } catch {
      show('<p class="problem" role="alert">The studio does not answer.</p>');
    }
  }
  asking = false;
}

document.addEventListener("input", (event) => {
  const ours = element.isConnected && props.value && props.value.run && event.target.closest("#latent-sliders");
  if (ours) ask();
});
watch("value", () => show(props.value ? (props.value.shown ?? props.value) : ""));
