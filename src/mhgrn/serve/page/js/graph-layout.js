/**
 * Places of the concepts: those of the question on the left, those of the choices on the right, the others between them by
 * forces. No random numbers: the same graph always has the same picture.
 */

/** Half the size of a node with room around it, in pixels. @typedef {{role: string, halfWidth: number, halfHeight: number}} Box */
/** @typedef {{x: Float64Array, y: Float64Array}} Places */

const MARGIN = 10;
const GAP = 44; // between a column and the concepts between
const CROWD = 40; // concepts between, from which they are spread …
const EVEN = 0.6; // … this evenly
const STEPS = 260;
const SEPARATIONS = 200;

/**
 * @param {Box[]} boxes
 * @param {[number, number][]} links
 * @param {number} width
 * @param {number} height
 * @returns {Places}
 */
export function layout(boxes, links, width, height) {
  const n = boxes.length;
  const x = new Float64Array(n);
  const y = new Float64Array(n);
  const area = betweenArea(boxes, width);
  const ragged = boxes.map((_, i) => 0.3 * GAP * ((i * 0.618034) % 1)); // so that no concepts line up along the columns
  const least = boxes.map((box, i) => (box.role === "question" ? MARGIN : box.role === "choice" ? width - MARGIN : area.left + ragged[i]) + pull(box));
  const most = boxes.map((box, i) => (box.role === "between" ? Math.max(area.right - ragged[i] - box.halfWidth, least[i]) : least[i]));
  const bounds = { least, most, height };
  start(boxes, links, x, y, bounds);
  attractAndRepel(boxes, links, x, y, bounds, area.right - area.left);
  for (const role of ["question", "choice"]) spread(boxes, role, y, height);
  attractAndRepel(boxes, links, x, y, bounds, area.right - area.left, true);
  fill(boxes, x, bounds.least, bounds.most);
  fill(boxes, y, boxes.map((box) => MARGIN + box.halfHeight), boxes.map((box) => height - MARGIN - box.halfHeight));
  separate(boxes, x, y, bounds);
  return { x, y };
}

/** How far the middle of a box lies from the edge it is aligned with. @param {Box} box */
function pull(box) {
  return box.role === "choice" ? -box.halfWidth : box.halfWidth;
}

/** @param {Box[]} boxes @param {number} width */
function betweenArea(boxes, width) {
  const widest = (/** @type {string} */ role) => Math.max(0, ...boxes.filter((box) => box.role === role).map((box) => 2 * box.halfWidth));
  const gap = Math.min(GAP, width / 14);
  let left = MARGIN + widest("question") + gap;
  let right = width - MARGIN - widest("choice") - gap;
  if (right - left < width / 4) {
    left = width * 0.3;
    right = width * 0.7;
  }
  return { left, right };
}

/** @typedef {{least: number[], most: number[], height: number}} Bounds */

/** @param {Box[]} boxes @param {[number, number][]} links @param {Float64Array} x @param {Float64Array} y @param {Bounds} bounds */
function start(boxes, links, x, y, bounds) {
  const { least, most, height } = bounds;
  for (const role of ["question", "choice", "between"]) {
    const members = boxes.map((_, i) => i).filter((i) => boxes[i].role === role);
    if (role !== "between") {
      members.forEach((i, k) => ((x[i] = least[i]), (y[i] = (height * (k + 1)) / (members.length + 1))));
      continue;
    }
    const sums = new Float64Array(boxes.length);
    const counts = new Float64Array(boxes.length);
    for (const [a, b] of links) {
      if (boxes[b].role !== "between") (sums[a] += y[b]), counts[a]++;
      if (boxes[a].role !== "between") (sums[b] += y[a]), counts[b]++;
    }
    const wanted = (/** @type {number} */ i) => (counts[i] ? sums[i] / counts[i] : height / 2);
    members.sort((a, b) => wanted(a) - wanted(b) || a - b);
    members.forEach((i, k) => {
      const turn = (k * 0.618034) % 1; // the golden ratio spreads neighbours in the list far apart
      x[i] = least[i] + turn * (most[i] - least[i]);
      y[i] = (height * (k + 1)) / (members.length + 1);
    });
  }
}

/** Give the concepts of a column the same distance, in the order they have. @param {Box[]} boxes @param {string} role @param {Float64Array} y @param {number} height */
function spread(boxes, role, y, height) {
  const members = boxes.map((_, i) => i).filter((i) => boxes[i].role === role);
  members.sort((a, b) => y[a] - y[b] || a - b);
  const step = Math.min(height / members.length, height / 4);
  const first = height / 2 - (step * (members.length - 1)) / 2;
  members.forEach((i, k) => (y[i] = first + k * step));
}

/**
 * @param {Box[]} boxes
 * @param {[number, number][]} links
 * @param {Float64Array} x
 * @param {Float64Array} y
 * @param {Bounds} bounds
 * @param {number} room width of the area between
 * @param {boolean} [columnsStay]
 */
function attractAndRepel(boxes, links, x, y, bounds, room, columnsStay = false) {
  const n = boxes.length;
  const ideal = 0.75 * Math.sqrt((room * bounds.height) / Math.max(n, 1));
  const far = (2.2 * ideal) ** 2;
  const dx = new Float64Array(n);
  const dy = new Float64Array(n);
  const degree = new Float64Array(n);
  for (const [i, j] of links) degree[i]++, degree[j]++;
  const pulls = links.map(([i, j]) => 0.5 / Math.sqrt(Math.max(degree[i], degree[j])));
  for (let step = 0; step < STEPS; step++) {
    dx.fill(0);
    dy.fill(0);
    for (let i = 0; i < n; i++) {
      for (let j = i + 1; j < n; j++) {
        const a = (x[i] - x[j]) / 1.6 || 0.1; // names are wide, so concepts keep more distance from side to side
        const b = y[i] - y[j] || 0.1 * (i - j);
        const apart = a * a + b * b;
        if (apart > far) continue; // many concepts far away would press the others against the border
        const force = (ideal * ideal) / apart;
        (dx[i] += a * force), (dx[j] -= a * force);
        (dy[i] += b * force), (dy[j] -= b * force);
      }
    }
    for (let k = 0; k < links.length; k++) {
      const [i, j] = links[k];
      const a = x[i] - x[j];
      const b = y[i] - y[j];
      const force = (pulls[k] * Math.min(Math.hypot(a, b), 3 * ideal)) / ideal;
      (dx[i] -= a * force), (dx[j] += a * force);
      (dy[i] -= b * force), (dy[j] += b * force);
    }
    const reach = 0.12 * bounds.height * (1 - step / STEPS) ** 1.5 + 0.5;
    for (let i = 0; i < n; i++) {
      if (columnsStay && boxes[i].role !== "between") continue;
      dy[i] += 0.02 * (bounds.height / 2 - y[i]);
      const length = Math.hypot(dx[i], dy[i]) || 1;
      const shorter = Math.min(length, reach) / length;
      x[i] += dx[i] * shorter;
      y[i] += dy[i] * shorter;
      inside(boxes, x, y, bounds, i);
    }
  }
}

/** @param {Box[]} boxes @param {Float64Array} x @param {Float64Array} y @param {Bounds} bounds @param {number} i */
function inside(boxes, x, y, { least, most, height }, i) {
  const edge = MARGIN + boxes[i].halfHeight;
  x[i] = Math.min(Math.max(x[i], least[i]), most[i]);
  y[i] = Math.min(Math.max(y[i], edge), height - edge);
}

/** Spread many concepts over all the room there is. @param {Box[]} boxes @param {Float64Array} places @param {number[]} least @param {number[]} most */
function fill(boxes, places, least, most) {
  const members = boxes.map((_, i) => i).filter((i) => boxes[i].role === "between");
  if (members.length < 8) return;
  const from = Math.min(...members.map((i) => places[i]));
  const to = Math.max(...members.map((i) => places[i]));
  const order = [...members].sort((a, b) => places[a] - places[b] || a - b);
  const even = members.length > CROWD ? EVEN : 0;
  order.forEach((i, k) => {
    const share = ((1 - even) * (places[i] - from)) / (to - from || 1) + (even * k) / (order.length - 1);
    places[i] = least[i] + share * (most[i] - least[i]);
  });
}

/** Push boxes apart that overlap. @param {Box[]} boxes @param {Float64Array} x @param {Float64Array} y @param {Bounds} bounds */
function separate(boxes, x, y, bounds) {
  const n = boxes.length;
  const isFixed = boxes.map((_, i) => bounds.least[i] === bounds.most[i]);
  for (let round = 0; round < SEPARATIONS; round++) {
    let overlaps = 0;
    for (let i = 0; i < n; i++) {
      for (let j = i + 1; j < n; j++) {
        const a = boxes[i].halfWidth + boxes[j].halfWidth - Math.abs(x[i] - x[j]);
        const b = boxes[i].halfHeight + boxes[j].halfHeight - Math.abs(y[i] - y[j]);
        if (a <= 0 || b <= 0) continue;
        overlaps++;
        if (a < b && !(isFixed[i] && isFixed[j])) {
          const shift = ((x[i] < x[j] ? -1 : 1) * a) / (isFixed[i] || isFixed[j] ? 1 : 2);
          if (!isFixed[i]) x[i] += shift;
          if (!isFixed[j]) x[j] -= shift;
        } else {
          const shift = ((y[i] < y[j] || (y[i] === y[j] && i < j) ? -1 : 1) * b) / 2;
          (y[i] += shift), (y[j] -= shift);
        }
        inside(boxes, x, y, bounds, i);
        inside(boxes, x, y, bounds, j);
      }
    }
    if (!overlaps) return;
  }
}
