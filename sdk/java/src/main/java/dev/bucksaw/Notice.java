package dev.bucksaw;

import java.util.Optional;

/**
 * A notice of a node within a tail.
 *
 * @param kind what it is about
 * @param count skipped bytes or records; 0 for other kinds
 * @param reason why a node was lost
 * @param node the node that was lost or has joined
 */
public record Notice(Kind kind, long count, Optional<String> reason, Optional<String> node)
    implements TailItem {

  /** Kind of a notice. */
  public enum Kind {
    /** The program has fallen behind. This number of bytes was skipped. */
    SKIPPED_BYTES,
    /** This number of records was skipped. */
    SKIPPED_RECORDS,
    /** A node was lost, or is down. Its records are missing from now on. */
    LOST,
    /** The records of a node are part of the tail from now on. */
    JOINED
  }
}
