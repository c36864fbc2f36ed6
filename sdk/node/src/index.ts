// The package: a client, its settings, and what it returns.

export { Client } from "./client.js";
export type { Failure, FailureHandler, FailureKind } from "./failures.js";
export {
  type Notice,
  type QueryAnswer,
  type QueryOptions,
  type QueryStats,
  type RangeOptions,
  ReadError,
  type ReadErrorCode,
  type ReadOptions,
  type StoredRecord,
  type TailEvent,
} from "./read.js";
export type { Level, LogRecord } from "./record.js";
export type { Stats } from "./sender.js";
export type { ClientSettings, Durability, WhenFull } from "./settings.js";
export type { Time } from "./time.js";
