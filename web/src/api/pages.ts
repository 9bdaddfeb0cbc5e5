/** isLong reports whether a query is a list of which several pages were looked at. All of them are asked for again, one after another, so that is not done without a reason. */
export function isLong({ state: { data } }: { state: { data?: unknown } }): boolean {
  return typeof data === "object" && data !== null && "pages" in data && Array.isArray(data.pages) && data.pages.length > 1;
}
