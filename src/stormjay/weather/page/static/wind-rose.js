// The wind rose is drawn by the server; here a petal under the pointer says its numbers below the picture.

class WindRose extends HTMLElement {
  connectedCallback() {
    this.words = this.querySelector(".shown");
    this.usual = this.words?.textContent;
    this.addEventListener("pointerover", this);
    this.addEventListener("pointerleave", this);
  }

  handleEvent(event) {
    if (!this.words) return;
    const title = event.type === "pointerover" ? event.target.querySelector?.(":scope > title") : undefined;
    this.words.textContent = title && event.target.localName === "path" ? title.textContent : this.usual;
  }
}

customElements.define("wind-rose", WindRose);
