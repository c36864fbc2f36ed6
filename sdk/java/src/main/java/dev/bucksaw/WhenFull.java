package dev.bucksaw;

/** What happens to a record that does not fit into the buffer. */
public enum WhenFull {
  /** It is dropped and counted. The caller does not wait. */
  DROP,
  /** The caller waits for at most the block time. If there is still no space, it is dropped. */
  BLOCK
}
