const number = new Intl.NumberFormat("en");
const percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const count = (n: number) => (n < 0 ? "not known" : number.format(n));
export const share = (part: number, of: number) => (of > 0 ? percent.format(part / of) : "–");
export const when = (time?: string) => (time ? day.format(new Date(time)) : "–");

/** ago says how long ago a time was. */
export function ago(time: string): string {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  return seconds < 1 ? "now" : seconds < 0 ? when(time) : `${span(seconds)} ago`;
}

/** span writes a length of time in its largest unit. */
export function span(seconds: number): string {
  if (seconds < 0.05) return "0 s";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
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

export const words = (name: string) => name.replaceAll("_", " ");
