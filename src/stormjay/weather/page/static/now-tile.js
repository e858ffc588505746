// A tile whose value lights up for a moment when it has changed.

export class NowTile extends HTMLElement {
  /** Show that the value is new. */
  changed() {
    this.classList.remove("fresh");
    void this.offsetWidth; // starts the animation anew
    this.classList.add("fresh");
    this.addEventListener("animationend", () => this.classList.remove("fresh"), { once: true });
  }
}

customElements.define("now-tile", NowTile);
