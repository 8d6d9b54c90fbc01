/** Zoom and pan by mouse, touch, keyboard and buttons. */

const FARTHEST = 1;
const NEAREST = 12;
const STEP = 1.35;
const PAN = 60; // pixels per arrow key
const STILL = 4; // pixels a pointer may move and still click

export class Zoom {
  /** @param {HTMLElement} stage @param {() => void} changed */
  constructor(stage, changed) {
    this.stage = stage;
    this.changed = changed;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.dragged = false;
    /** @type {Map<number, {x: number, y: number}>} */
    this.pointers = new Map();
    stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    stage.addEventListener("pointerdown", (event) => this.down(event));
    stage.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
      stage.addEventListener(end, (event) => this.up(/** @type {PointerEvent} */ (event)));
    }
    stage.addEventListener("keydown", (event) => this.key(event));
  }

  get isWhole() {
    return this.scale === 1;
  }

  whole() {
    this.set(1, 0, 0);
  }

  closer() {
    this.by(STEP, this.stage.clientWidth / 2, this.stage.clientHeight / 2);
  }

  farther() {
    this.by(1 / STEP, this.stage.clientWidth / 2, this.stage.clientHeight / 2);
  }

  /** @param {number} factor @param {number} x @param {number} y the place that stays */
  by(factor, x, y) {
    const scale = Math.min(Math.max(this.scale * factor, FARTHEST), NEAREST);
    const ratio = scale / this.scale;
    this.set(scale, x - (x - this.x) * ratio, y - (y - this.y) * ratio);
  }

  /** @param {number} scale @param {number} x @param {number} y */
  set(scale, x, y) {
    const { clientWidth: width, clientHeight: height } = this.stage;
    this.scale = scale;
    this.x = Math.min(Math.max(x, width * (1 - scale)), 0);
    this.y = Math.min(Math.max(y, height * (1 - scale)), 0);
    this.stage.classList.toggle("near", scale > 1); // a whole picture leaves vertical swipes to the page
    this.changed();
  }

  /** The wheel scrolls the page unless the picture has the focus. @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && !this.stage.contains(document.activeElement)) return;
    event.preventDefault();
    const place = this.place(event);
    this.by(Math.exp(-Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 100) * 0.003), place.x, place.y);
  }

  /** @param {MouseEvent} event */
  place(event) {
    const box = this.stage.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button !== 0) return;
    if (this.pointers.size === 0) this.dragged = false;
    this.pointers.set(event.pointerId, this.place(event));
  }

  /** @param {PointerEvent} event */
  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const now = this.place(event);
    if (!this.dragged && this.pointers.size === 1 && Math.hypot(now.x - before.x, now.y - before.y) < STILL) return;
    if (!this.dragged) this.stage.setPointerCapture(event.pointerId);
    this.dragged = true;
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, now);
    if (!other) return this.set(this.scale, this.x + now.x - before.x, this.y + now.y - before.y);
    const spread = Math.hypot(now.x - other.x, now.y - other.y) / (Math.hypot(before.x - other.x, before.y - other.y) || 1);
    this.by(spread, (now.x + other.x) / 2, (now.y + other.y) / 2);
    this.set(this.scale, this.x + (now.x - before.x) / 2, this.y + (now.y - before.y) / 2);
  }

  /** @param {PointerEvent} event */
  up(event) {
    this.pointers.delete(event.pointerId);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.set(this.scale, this.x + PAN, this.y),
      ArrowRight: () => this.set(this.scale, this.x - PAN, this.y),
      ArrowUp: () => this.set(this.scale, this.x, this.y + PAN),
      ArrowDown: () => this.set(this.scale, this.x, this.y - PAN),
      "+": () => this.closer(),
      "=": () => this.closer(),
      "-": () => this.farther(),
      0: () => this.whole(),
    };
    const act = keys[event.key];
    if (!act || (this.isWhole && event.key.startsWith("Arrow"))) return;
    event.preventDefault();
    act();
  }
}
