package dev.bucksaw;

/** What the node has done with the records of a batch when it acknowledges them. */
public enum Durability {
  /** The records are written. They survive the end of the node, but not a power cut. */
  FAST("fast"),
  /** The records are synced to disk. */
  DURABLE("durable"),
  /** The records are in the store, synced to disk. Meant for large imports. */
  BULK("bulk");

  private final String text;

  Durability(String text) {
    this.text = text;
  }

  String text() {
    return text;
  }
}
