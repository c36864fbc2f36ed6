import { describe, expect, it } from "vitest";
import { absolute, durationMs, momentMs, needsZone, normalizeMoment, rangeName, shifted } from "../src/lib/ranges.ts";

const NOW = Date.parse("2026-11-20T23:10:00Z");

describe("times as typed", () => {
  it.each([
    ["15m", NOW - 900_000],
    ["1h30m", NOW - 5_400_000],
    ["2d", NOW - 172_800_000],
    ["", NOW],
    ["now", NOW],
    ["1763680200", 1_763_680_200_000],
    ["1763680200123", 1_763_680_200_123],
    ["2026-11-20T23:00:00Z", NOW - 600_000],
    ["2026-11-20T23:00:00.5+00:00", NOW - 599_500],
    ["15m ago", NOW - 900_000],
    ["now-15m", NOW - 900_000],
    ["now - 1h", NOW - 3_600_000],
    ["1.5h", NOW - 5_400_000],
    ["today", Date.parse("2026-11-20T00:00:00Z")],
    ["Yesterday", Date.parse("2026-11-19T00:00:00Z")],
    ["10:30", Date.parse("2026-11-20T10:30:00Z")],
    ["25:00", undefined],
    ["now-", undefined],
    ["soon", undefined],
    ["15", undefined],
    ["1x", undefined],
    ["2026-13-40T00:00:00Z", undefined],
  ])("%s", (text, want) => expect(momentMs(text, NOW)).toBe(want));

  it("lose no digits on their way to the node", () => {
    expect(normalizeMoment("2026-11-20T23:00:00.123456Z", "UTC", NOW)).toBe("2026-11-20T23:00:00.123456Z");
    expect(normalizeMoment("2026-11-20 23:00", "UTC", NOW)).toBe("2026-11-20T23:00:00.000Z");
    expect(normalizeMoment("2026-11-20", "UTC", NOW)).toBe("2026-11-20T00:00:00.000Z");
    expect(normalizeMoment("1h", "UTC", NOW)).toBe("1h");
    expect(normalizeMoment("soon", "UTC", NOW)).toBeUndefined();
  });

  it("are those of a zone, and days keep their meaning", () => {
    const zone = "Asia/Kolkata";
    // It is already the next day there.
    expect(momentMs("today", NOW, zone)).toBe(Date.parse("2026-11-20T18:30:00Z"));
    expect(normalizeMoment("2026-11-20 23:10", zone, NOW)).toBe("2026-11-20T17:40:00.000Z");
    // Half an hour before the clock is set forward.
    expect(normalizeMoment("2026-03-29 01:30", "Europe/Berlin", NOW)).toBe("2026-03-29T00:30:00.000Z");
    expect(normalizeMoment("2026-11-20", zone, NOW)).toBe("2026-11-19T18:30:00.000Z");
    expect(normalizeMoment("Today", zone, NOW)).toBe("today");
    expect(normalizeMoment("now-15m", zone, NOW)).toBe("15m");
    expect([needsZone("today"), needsZone("10:30"), needsZone("15m"), needsZone("2026-11-20T00:00:00Z")]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it("are durations or not", () => {
    expect(durationMs("1d12h")).toBe(129_600_000);
    expect(durationMs("h")).toBeUndefined();
  });
});

describe("ranges", () => {
  const show = (iso: string) => iso.slice(11, 16);
  it("have names", () => {
    expect(rangeName({ from: "1h", to: "" }, show)).toBe("Last hour");
    expect(rangeName({ from: "25m", to: "" }, show)).toBe("Last 25m");
    expect(rangeName({ from: "yesterday", to: "today" }, show)).toBe("Yesterday");
    expect(rangeName({ from: "today", to: "10:30" }, show)).toBe("today – 10:30");
    expect(rangeName({ from: "2h", to: "1h" }, show)).toBe("2h ago – 1h ago");
    expect(rangeName({ from: "2026-11-20T22:00:00Z", to: "" }, show)).toBe("22:00 – now");
  });

  it("move by their length and grow around their middle, but not into the future", () => {
    const [from, to] = [NOW - 7_200_000, NOW - 3_600_000];
    expect(shifted(from, to, "earlier", NOW)).toEqual(absolute(from - 3_600_000, from));
    expect(shifted(from, to, "later", NOW)).toEqual(absolute(to, NOW));
    expect(shifted(from, to, "wider", NOW)).toEqual(absolute(from - 3_600_000, NOW));
    expect(shifted(from, NOW, "wider", NOW).to).toBe(new Date(NOW).toISOString());
  });
});
