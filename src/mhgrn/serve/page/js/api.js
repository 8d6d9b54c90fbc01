/** Client of the service. The token, if the service has one, is kept in memory only. */

/** @typedef {import("./types.js").Asked} Asked */
/** @typedef {import("./types.js").Answer} Answer */

export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {number} status 0: the server did not answer
   * @param {string | null} [field] the field of the request that is wrong
   */
  constructor(message, status, field = null) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

const KEPT = 40; // answers that are not asked for again

export class Api {
  /** @param {(refused: boolean) => Promise<string>} askToken */
  constructor(askToken) {
    this.base = new URL("v1/", document.baseURI);
    this.askToken = askToken;
    /** @type {string | null} */
    this.token = null;
    /** @type {Promise<string> | null} */
    this.prompt = null;
    /** @type {Map<string, Answer>} */
    this.answers = new Map();
  }

  /** @param {Asked} asked @param {AbortSignal} [signal] @returns {Promise<Answer>} */
  async ask(asked, signal) {
    const body = JSON.stringify(asked);
    const known = this.answers.get(body);
    if (known) return known;
    const headers = { "Content-Type": "application/json" };
    const answer = await this.fetch("ask", { method: "POST", body, headers, signal });
    this.answers.set(body, answer);
    if (this.answers.size > KEPT) this.answers.delete(/** @type {string} */ (this.answers.keys().next().value));
    return answer;
  }

  /**
   * @param {string} path
   * @param {Record<string, string | number>} [query]
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  async get(path, query = {}, signal = undefined) {
    const text = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)])).toString();
    return this.fetch(text ? `${path}?${text}` : path, { signal });
  }

  /** @param {string} path @param {RequestInit} options @returns {Promise<any>} */
  async fetch(path, options) {
    for (;;) {
      const sent = this.token;
      const headers = { ...options.headers, ...(sent === null ? {} : { Authorization: `Bearer ${sent}` }) };
      const response = await answered(fetch(new URL(path, this.base), { ...options, headers, credentials: "omit", cache: "no-store" }));
      if (response.status === 401) await this.renewToken(sent);
      else if (response.ok) return response.json();
      else throw await problem(response);
    }
  }

  /** Ask for the token, once for all requests that wait for it. @param {string | null} refused */
  async renewToken(refused) {
    if (this.token !== refused) return;
    this.prompt ??= this.askToken(refused !== null).finally(() => (this.prompt = null));
    this.token = await this.prompt;
  }
}

/** @param {Promise<Response>} response */
async function answered(response) {
  try {
    return await response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Is it still running?", 0);
  }
}

/** The message is shown at its field, so it need not name it. @param {string | undefined} message @param {string | null | undefined} field */
function withoutField(message, field) {
  return field && message?.startsWith(`${field}: `) ? message.slice(field.length + 2) : message;
}

/** @param {Response} response */
async function problem(response) {
  const said = await response.json().then(
    (body) => body?.error,
    () => null,
  );
  const message = withoutField(said?.message, said?.field) ?? `The server answered with status ${response.status}.`;
  const wait = Number(response.headers.get("Retry-After"));
  const later = response.status === 503 ? ` Try again in ${wait > 1 ? `${wait} seconds` : "a moment"}.` : "";
  return new ApiError(`${message}${later}`, response.status, said?.field ?? null);
}
