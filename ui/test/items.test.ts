import { describe, expect, it } from "vitest";
import {
  type Changes,
  changed,
  type Items,
  members,
  removeMember,
  setMember,
  setSettings,
} from "../src/state/items.ts";

const NONE: Items = new Map();
const names = (items: Items) => members(items, "saved").map(({ name }) => name);
const save = (items: Items, name: string, at: number) =>
  changed(items, setMember(items, "saved", name, `/?q=${name}`, at));

describe("stored items", () => {
  it("are listed latest first, also those stored again and after the clock was set back", () => {
    let items = save(save(save(NONE, "a", 10), "b", 20), "c", 5);
    expect(names(items)).toEqual(["c", "b", "a"]);
    items = save(items, "a", 30);
    expect(names(items)).toEqual(["a", "c", "b"]);
    expect(members(items, "saved")[0]).toEqual({ name: "a", at: 30, value: "/?q=a" });
    expect(names(changed(items, removeMember("saved", "c")))).toEqual(["a", "b"]);
  });

  it("do not exceed what a list keeps", () => {
    let items = changed(NONE, setMember(NONE, "recent", "kept", undefined, 0));
    for (let i = 0; i < 205; i++) items = save(items, `${i}`, i);
    expect(names(items)).toEqual(Array.from({ length: 200 }, (_, i) => `${204 - i}`));
    expect(items.size).toBe(201);
    expect(members(items, "recent").map(({ name }) => name)).toEqual(["kept"]);
  });

  it("of two tabs that do not know of each other's do not undo each other", () => {
    const before = save(NONE, "old", 1);
    const tabs: Changes[] = [
      setMember(before, "saved", "first", "/?q=", 2),
      setMember(before, "saved", "second", "/?q=", 2),
      removeMember("saved", "old"),
      setSettings({ theme: "dark" }),
      setMember(before, "recent", "level=error", undefined, 2),
    ];
    const stored = tabs.reduce(changed, before);
    const backwards = [...tabs].reverse().reduce(changed, before);
    expect(new Map([...backwards].sort())).toEqual(new Map([...stored].sort()));
    expect(names(stored)).toEqual(["first", "second"]);
    expect(stored.size).toBe(4);
  });

  it("that are unreadable are passed over, and go when the list is written next", () => {
    const items = new Map([
      ["bucksaw.saved.torn", '{"at":1'],
      ["bucksaw.saved.null", "null"],
      ["bucksaw.saved.text", '"x"'],
      ["bucksaw.saved.timeless", '{"value":"/"}'],
      ["bucksaw.saved.endless", '{"at":1e999,"value":"/"}'],
      ["bucksaw.savedother", '{"at":1,"value":"/"}'],
    ]);
    expect(names(items)).toEqual([]);
    const next = save(items, "a", 1);
    expect([...next.keys()].sort()).toEqual(["bucksaw.saved.a", "bucksaw.savedother"]);
  });
});
