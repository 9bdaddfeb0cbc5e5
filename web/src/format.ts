const number = new Intl.NumberFormat("en");
const percent = new Intl.NumberFormat("en", { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const count = (n: number) => (n < 0 ? "not known" : number.format(n));
export const share = (part: number, of: number) => (of > 0 ? percent.format(part / of) : "–");
export const shareOf = (part: number, of: number, what: string) => (of > 0 ? `${share(part, of)} of ${what}` : `nothing ${what} yet`);
export const when = (time?: string) => (time ? day.format(new Date(time)) : "–");

const clockSlackMillis = 60_000; // what an answer may take on its way
let aheadMillis = 0;

/** setClock takes the time that the server has: what it says is compared with its clock, since that of the browser may be wrong by hours. */
export function setClock(server: number) {
  const ahead = server - Date.now();
  if (!Number.isNaN(ahead)) aheadMillis = Math.abs(ahead) > clockSlackMillis ? ahead : 0;
}

/** now is the server's time, to a minute. */
export const now = () => Date.now() + aheadMillis;

/** ago says how long ago a time was. */
export function ago(time: string): string {
  const seconds = (now() - Date.parse(time)) / 1000;
  return seconds < -clockSlackMillis / 1000 ? when(time) : seconds < 1 ? "now" : `${span(seconds)} ago`;
}

/** span writes a length of time in its largest unit. */
export function span(seconds: number): string {
  if (seconds < 0.05) return "0 s";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export function bytes(n: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

const hidden = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** visible writes out the characters that turn the direction of text, by which a name can look like another. */
export const visible = (text: string) => text.replace(hidden, (c) => `[U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}]`);

export const mostShown = 200; // characters

/** shortened is a text of others, cut if it is very long. */
export function shortened(text: string): string {
  const all = visible(text);
  return all.length > mostShown ? `${all.slice(0, mostShown)}…` : all;
}

export const words = (name: string) => name.replaceAll("_", " ");
