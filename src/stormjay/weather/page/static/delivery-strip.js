// The delivery strip: the server draws it, here it answers to pointer and keys. Picking a minute opens its packets.

const WORDS = {
  none: "no record",
  delivered: "delivered",
  captured: "captured, not yet sent",
  waiting: "waiting for another try",
  refused: "refused",
};

class DeliveryStrip extends HTMLElement {
  connectedCallback() {
    this.track = this.querySelector(".track");
    if (!this.track || this.mark) return;
    this.cells = Number(this.dataset.cells);
    this.cellSeconds = Number(this.dataset.cellSeconds);
    this.start = Math.floor(Date.parse(this.dataset.start) / 1000);
    this.format = new Intl.DateTimeFormat("en-GB", {
      hour: "2-digit",
      minute: "2-digit",
      timeZone: this.dataset.zone,
    });
    this.runs = [...this.querySelectorAll("rect")].map((rect) => ({
      from: Number(rect.getAttribute("x")),
      to: Number(rect.getAttribute("x")) + Number(rect.getAttribute("width")),
      state: rect.getAttribute("class"),
    }));
    this.mark = document.createElement("span");
    this.mark.className = "mark";
    this.mark.hidden = true;
    this.tip = document.createElement("span");
    this.tip.className = "tip";
    this.mark.append(this.tip);
    this.track.append(this.mark);
    this.track.tabIndex = 0;
    this.track.setAttribute("role", "slider");
    this.track.setAttribute("aria-label", "Minute of the day");
    this.track.setAttribute("aria-valuemin", "0");
    this.track.setAttribute("aria-valuemax", String(this.cells - 1));
    this.cell = Math.max(0, ...this.runs.map((run) => run.to - 1));
    this.announce();
    for (const type of ["pointermove", "pointerdown", "pointerleave", "click", "keydown", "focus", "blur"]) {
      this.track.addEventListener(type, this);
    }
  }

  handleEvent(event) {
    if (event.type === "pointermove" || event.type === "pointerdown") this.move(this.cellAt(event));
    else if (event.type === "pointerleave" || event.type === "blur") this.mark.hidden = true;
    else if (event.type === "focus") this.move(this.cell);
    else if (event.type === "click") this.pick(this.cellAt(event));
    else if (event.type === "keydown") this.key(event);
  }

  key(event) {
    const far = event.shiftKey ? 60 : 1;
    const steps = { ArrowLeft: -far, ArrowRight: far, PageDown: -60, PageUp: 60, Home: -this.cells, End: this.cells };
    if (event.key in steps) this.move(this.cell + steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.pick(this.cell);
    else return;
    event.preventDefault();
  }

  /** The cell under the pointer; close by, a fault or a record draws it to itself, for fingers are wide. */
  cellAt(event) {
    const box = this.track.getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left) / box.width) * this.cells);
    const reach = Math.ceil((event.pointerType === "touch" ? 10 : 3) / (box.width / this.cells));
    const near = (state) =>
      this.runs.find((run) => run.state === state && run.from <= place + reach && run.to > place - reach);
    for (const state of ["refused", "waiting"]) {
      const run = near(state);
      if (run) return Math.min(Math.max(place, run.from), run.to - 1);
    }
    return place;
  }

  state(cell) {
    return this.runs.find((run) => run.from <= cell && cell < run.to)?.state;
  }

  move(cell) {
    this.cell = Math.min(Math.max(cell, 0), this.cells - 1);
    this.mark.hidden = false;
    this.mark.style.left = `${((this.cell + 0.5) / this.cells) * 100}%`;
    this.mark.classList.toggle("late", this.cell > this.cells * 0.7);
    this.announce();
    this.tip.textContent = this.track.getAttribute("aria-valuetext");
  }

  announce() {
    const time = this.format.format(new Date((this.start + this.cell * this.cellSeconds) * 1000));
    const state = this.state(this.cell);
    this.track.setAttribute("aria-valuenow", String(this.cell));
    this.track.setAttribute("aria-valuetext", `${time} ${state ? WORDS[state] : "still to come"}`);
  }

  pick(cell) {
    this.move(cell);
    const query = new URLSearchParams(this.dataset.query);
    query.delete("range");
    query.set("start", String(this.start + this.cell * this.cellSeconds));
    query.set("seconds", String(this.cellSeconds));
    window.htmx?.ajax("GET", `/weather/fragments/minute?${query}`, { target: "#packet", swap: "innerHTML" });
  }
}

customElements.define("delivery-strip", DeliveryStrip);
